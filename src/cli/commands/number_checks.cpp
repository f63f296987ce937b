#include "cli/commands/number_checks.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace sotto::cli {

namespace {

// Parses a finite number; none where the text is not one.
std::optional<double> number_in(const std::string& text) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool is_number = error == std::errc() && rest == end && std::isfinite(value);
  return is_number ? std::optional(value) : std::nullopt;
}

}  // namespace

CLI::Validator positive() {
  return {[](std::string& text) {
            return number_in(text).value_or(0.0) > 0.0 ? "" : text + " is not a number above 0";
          },
          "POSITIVE"};
}

CLI::Validator not_negative() {
  return {[](std::string& text) {
            return number_in(text).value_or(-1.0) >= 0.0 ? ""
                                                         : text + " is not a number of 0 or more";
          },
          "NONNEGATIVE"};
}

CLI::Validator between(double least, double most) {
  return {[least, most](std::string& text) {
            const std::optional<double> number = number_in(text);
            return number && *number >= least && *number <= most
                       ? std::string()
                       : fmt::format("{} is not a number from {} to {}", text, least, most);
          },
          fmt::format("FROM {} TO {}", least, most)};
}

CLI::Validator finite() {
  return {[](std::string& text) { return number_in(text) ? "" : text + " is not a number"; },
          "NUMBER"};
}

}  // namespace sotto::cli
