// What the program says and returns when something was thrown: the one place that turns exceptions
// into exit codes.
#pragma once

#include <string>

namespace sotto::cli {

struct Failure {
  // 2 bad input, 3 out of memory, 70 our own fault.
  int exit_code = 70;
  // One line, without the "sotto: " before it.
  std::string message = {};
};

// Describes the exception being handled: to be called inside a catch block alone.
Failure describe_current_exception();

}  // namespace sotto::cli
