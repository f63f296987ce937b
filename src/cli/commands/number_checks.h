// Validators of numbers on the command line. CLI11's own print the largest representable number.
#pragma once

#include <CLI/CLI.hpp>

namespace sotto::cli {

// Accepts numbers above 0.
CLI::Validator positive();
// Accepts 0 and above.
CLI::Validator not_negative();
// Accepts numbers from `least` to `most`; CLI11's own check of a range accepts NaN.
CLI::Validator between(double least, double most);
// Accepts any finite number.
CLI::Validator finite();

}  // namespace sotto::cli
