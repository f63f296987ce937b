// Runs a program as a child process and returns all it said: how the tests of the command line see
// the program.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sotto::test {

struct CommandResult {
  // The exit code; minus the signal's number where a signal ended it.
  int exit_code = 0;
  std::string out;
  std::string err;
  // Most memory that it had at once.
  int64_t peak_bytes = 0;
};

// Runs `words` (the program's path first) to its end with nothing on standard input. `environment`
// holds NAME=VALUE and is added to this process's own. Throws where the program cannot be started.
CommandResult run_command(const std::vector<std::string>& words,
                          const std::vector<std::string>& environment = {});

// A signal that follows another one.
struct SecondSignal {
  int signal = 0;
  // Until it is sent; meanwhile the program stands still.
  std::chrono::milliseconds pause = {};
};

// Starts the program as run_sotto() does and sends it a signal when `is_time` says so, which is
// asked all the time; and then a second one, where one is named. Returns the exit code of its end;
// what it said is lost.
int run_sotto_and_signal(const std::vector<std::string>& arguments, int signal,
                         const std::function<bool()>& is_time,
                         const std::optional<SecondSignal>& second = {});

// The built program with `arguments`; its path is in the environment, SOTTO_BINARY, set by CTest.
CommandResult run_sotto(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& environment = {});

// The same with a terminal of so many columns as standard error.
CommandResult run_sotto_on_terminal(const std::vector<std::string>& arguments, int columns);

// The same with a terminal as standard error that is closed right after the start. Returns the exit
// code.
int run_sotto_on_closed_terminal(const std::vector<std::string>& arguments);

// The same by a shell, with redirections behind the command: "2>&-", "2>&1 | head -n 1".
CommandResult run_sotto_in_shell(const std::vector<std::string>& arguments,
                                 const std::string& redirections);

}  // namespace sotto::test
