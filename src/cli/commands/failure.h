// Error message and exit code for an exception: the only place that turns exceptions into exit
// codes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sotto/core/error.h"

namespace sotto::cli {

struct Failure {
  // 2 bad input, 3 out of memory, 70 internal error.
  int exit_code = 70;
  // One line, without the "sotto: " prefix.
  std::string message = {};
  // Name of the exception's type: ConfigError, Infeasible, DataError, OutOfMemory, InternalError.
  std::string error = "InternalError";
  // The parts of the message.
  Problem problem = {};
};

// Describes the exception being handled; must be called inside a catch block.
Failure describe_current_exception();

// The object of --json-errors and of the event `failed`: docs/events.md.
nlohmann::ordered_json failure_json(const Failure& failure);

}  // namespace sotto::cli
