// Plots one quantity over time as text for the terminal:
//
//   8.0 ┤  ▂█▆
//       │ ▄███▇▂
//     0 └────────
//        first  then
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sotto::report {

// A named range of consecutive values; the name is printed below them if there is room for it.
struct Stretch {
  std::string name;
  int64_t num_values = 0;
};

struct Chart {
  // Values of at least 0; if there are more than columns, each column shows the maximum of its
  // range.
  std::vector<double> values;
  // Ranges that cover all values, in order.
  std::vector<Stretch> stretches;
  // Label of the largest value.
  std::string top;

  static constexpr int64_t kHeight = 8;
  std::string to_string(int64_t max_width = 100) const;
};

}  // namespace sotto::report
