// Parses the command line with CLI11; its errors are converted to ConfigErrors in our wording, with
// the nearest command or option suggested.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace sotto::cli {

// Parses and runs the callback of the named command, or answers --help or --version on standard
// output. Throws ConfigError for invalid input; where no command is named, the help is first
// printed to standard error.
void run_command_line(CLI::App& app, int argc, char** argv);

// Returns the footer of a command's help. `needs`: what a fresh clone does not have; empty: the
// lines run there as they are.
std::string example(const std::string& lines, const std::string& needs = {});

// Adds --memory. An empty value is an error: it would come from a variable that is not set.
void add_memory_option(CLI::App& command, std::string& memory);

}  // namespace sotto::cli
