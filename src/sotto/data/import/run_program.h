// Other programs, run to their end: curl, tar, unzip, sha256sum.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sotto::data {

struct ProgramResult {
  // Minus the signal's number where a signal ended it; none where it could not be started.
  int exit_code = 0;
  bool has_started = false;
  // Standard output and standard error, in the order they came.
  std::string output = {};
};

// Runs `words`, of which the first is looked for in PATH, with nothing on standard input. `tick` is
// called a few times a second meanwhile. Throws InternalError where the system gives no pipe.
ProgramResult run_program(const std::vector<std::string>& words,
                          const std::function<void()>& tick = {});

}  // namespace sotto::data
