// One quantity over time as a picture of letters, for the terminal:
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

// Neighbouring values with a name, which stands below them where there is room for it.
struct Stretch {
  std::string name;
  int64_t num_values = 0;
};

struct Chart {
  // None below 0; where there are more than columns, each column shows the largest of its own.
  std::vector<double> values;
  // Of all values, in their order.
  std::vector<Stretch> stretches;
  // What the largest value is called.
  std::string top;

  static constexpr int64_t kHeight = 8;
  std::string to_string(int64_t max_width = 100) const;
};

}  // namespace sotto::report
