// Runs a program as a child process and returns all it said: how the tests of the command line see
// the program.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sotto::test {

struct CommandResult {
  // The exit code; minus the signal's number where a signal ended it.
  int exit_code = 0;
  std::string out;
  std::string err;
};

// Runs `words` (the program's path first) to its end with nothing on standard input. `environment`
// holds NAME=VALUE and is added to this process's own. Throws where the program cannot be started.
CommandResult run_command(const std::vector<std::string>& words,
                          const std::vector<std::string>& environment = {});

// Starts the program as run_sotto() does and kills it (SIGKILL) when `is_time` says so, which is
// asked all the time; what it said until then is lost. Its exit code is that of its own end where
// it was quicker.
CommandResult run_sotto_and_kill(const std::vector<std::string>& arguments,
                                 const std::function<bool()>& is_time);

// The built program with `arguments`; its path is in the environment, SOTTO_BINARY, set by CTest.
CommandResult run_sotto(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& environment = {});

}  // namespace sotto::test
