#include "cli/commands/number_checks.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace sotto::cli {

namespace {

// The number that a text is; nothing where it is none, or not finite.
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
            return number_in(text).value_or(0.0) > 0.0 ? "" : text + " is no number above 0";
          },
          "POSITIVE"};
}

CLI::Validator not_negative() {
  return {[](std::string& text) {
            return number_in(text).value_or(-1.0) >= 0.0 ? "" : text + " is no number from 0 on";
          },
          "NONNEGATIVE"};
}

CLI::Validator finite() {
  return {[](std::string& text) { return number_in(text) ? "" : text + " is no number"; },
          "NUMBER"};
}

}  // namespace sotto::cli
