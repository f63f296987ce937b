// Reading the command line: CLI11 does the work, and its complaints become ConfigErrors in our
// words, with the nearest command or option named.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace sotto::cli {

// Parses and runs the callback of the command that was named, or answers --help or --version on
// standard output. Throws ConfigError for a mistake; where no command was named, the help goes to
// standard error first.
void run_command_line(CLI::App& app, int argc, char** argv);

// The foot of a command's help. `needs`: what a fresh clone does not have; empty: the lines run
// there as they stand.
std::string example(const std::string& lines, const std::string& needs = {});

}  // namespace sotto::cli
