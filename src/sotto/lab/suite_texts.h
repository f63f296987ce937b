// The suites of configs/lab as text, compiled into the program.
#pragma once

#include <span>
#include <string_view>

namespace sotto::lab {

struct SuiteText {
  std::string_view file;
  std::string_view yaml;
};

extern const std::span<const SuiteText> kSuiteTexts;

}  // namespace sotto::lab
