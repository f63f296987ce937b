// Runs other programs to completion: curl, tar, unzip, sha256sum.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sotto::data {

struct ProgramResult {
  // The negative signal number if a signal ended it; unset if it could not be started.
  int exit_code = 0;
  bool has_started = false;
  // Standard output and standard error, interleaved in order.
  std::string output = {};
};

// Runs `words`, of which the first is looked up in PATH, with empty standard input. `tick` is
// called a few times per second meanwhile. Throws InternalError where the system cannot create a
// pipe.
ProgramResult run_program(const std::vector<std::string>& words,
                          const std::function<void()>& tick = {});

}  // namespace sotto::data
