// Error message and exit code for an exception: the only place that turns exceptions into exit
// codes.
#pragma once

#include <string>

namespace sotto::cli {

struct Failure {
  // 2 bad input, 3 out of memory, 70 internal error.
  int exit_code = 70;
  // One line, without the "sotto: " prefix.
  std::string message = {};
};

// Describes the exception being handled; must be called inside a catch block.
Failure describe_current_exception();

}  // namespace sotto::cli
