// What numbers on the command line may be. CLI11's own checks print the largest number there is.
#pragma once

#include <CLI/CLI.hpp>

namespace sotto::cli {

// Above 0.
CLI::Validator positive();
// 0 or above.
CLI::Validator not_negative();
// Any finite number.
CLI::Validator finite();

}  // namespace sotto::cli
