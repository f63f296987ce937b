#include "sotto/core/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "sotto/core/error.h"
#include "sotto/core/words.h"

namespace sotto {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kByteUnits = {
    Unit{"B", 1.0},      Unit{"KiB", 0x1p10}, Unit{"MiB", 0x1p20},
    Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}, Unit{"KB", 1e3},
    Unit{"MB", 1e6},     Unit{"GB", 1e9},     Unit{"TB", 1e12},
};

constexpr std::array kTimeUnits = {
    Unit{"ms", 1e-3}, Unit{"s", 1.0}, Unit{"min", 60.0}, Unit{"h", 3600.0}, Unit{"d", 86400.0},
};

// Removes a number from the front of `text`; returns std::nullopt if there is none.
std::optional<double> take_number(std::string_view& text) {
  double value = 0.0;
  const auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (code != std::errc{} || !std::isfinite(value)) return std::nullopt;
  text = trimmed(text.substr(static_cast<size_t>(end - text.data())));
  return value;
}

// Removes a unit from the front of `text`: the letters up to the next digit or blank.
template <size_t N>
std::optional<double> take_unit(std::string_view& text, const std::array<Unit, N>& units) {
  const std::string_view word = text.substr(0, text.find_first_of(" 0123456789."));
  for (const Unit& unit : units) {
    if (word == unit.name) {
      text = trimmed(text.substr(word.size()));
      return unit.factor;
    }
  }
  return std::nullopt;
}

[[noreturn]] void throw_bad_size(std::string_view text, std::string_view found) {
  throw ConfigError({.attempted = fmt::format("reading the memory size '{}'", text),
                     .found = std::string(found),
                     .expected = "a number with a unit, such as 8GiB, 12GB or 750MiB",
                     .hint = "GB is 1e9 bytes, GiB is 2^30."});
}

// Formats a percentage with the fewest decimals that parse back to the same share: 0.07 * 100 is
// not 7.
std::string format_share(double share) {
  for (int decimals = 0; decimals < 17; ++decimals) {
    const std::string text = fmt::format("{:.{}f}", share * 100.0, decimals);
    std::string_view rest = text;
    if (take_number(rest).value_or(0) / 100.0 == share) return text + "%";
  }
  return fmt::format("{}%", share * 100.0);
}

}  // namespace

int64_t parse_bytes(std::string_view text) {
  std::string_view rest = trimmed(text);
  const std::optional<double> number = take_number(rest);
  if (!number) throw_bad_size(text, "it does not begin with a number");
  if (*number < 0) throw_bad_size(text, "it is negative");
  if (rest.empty()) throw_bad_size(text, "it has no unit");
  const std::optional<double> factor = take_unit(rest, kByteUnits);
  if (!factor || !rest.empty()) throw_bad_size(text, "its unit is not known");
  const double bytes = std::round(*number * *factor);
  if (bytes > 0x1p60) throw_bad_size(text, "it is larger than any machine");
  return static_cast<int64_t>(bytes);
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024.0;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int decimals = std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kNames[unit]);
}

double parse_duration(std::string_view text) {
  const auto fail = [&](std::string_view found) {
    throw ConfigError({.attempted = fmt::format("reading the duration '{}'", text),
                       .found = std::string(found),
                       .expected = "numbers with units, such as 90s, 15min, 2h or 1h30min"});
  };
  std::string_view rest = trimmed(text);
  if (rest.empty()) fail("it is empty");
  double seconds = 0.0;
  while (!rest.empty()) {
    const std::optional<double> number = take_number(rest);
    if (!number) fail("a number is missing");
    if (*number < 0) fail("it is negative");
    const std::optional<double> factor = take_unit(rest, kTimeUnits);
    if (!factor) fail(rest.empty() ? "it has no unit" : "its unit is not known");
    seconds += *number * *factor;
  }
  return seconds;
}

std::string format_mebibytes(int64_t bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  return fmt::format("{}MiB", (bytes + kMiB - 1) / kMiB);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 0) return "-" + format_duration(-seconds);
  if (seconds == 0.0) return "0 ms";
  if (seconds < 0.9995) return fmt::format("{} ms", format_digits(seconds * 1e3));
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

std::string format_digits(double number) {
  if (!std::isfinite(number)) return "unknown";
  if (number < 0) return "-" + format_digits(-number);
  if (number == 0.0 || number >= 9.95) return fmt::format("{:.0f}", number);
  // The number of decimals that shows two significant digits.
  const int decimals = 1 - static_cast<int>(std::floor(std::log10(number)));
  return fmt::format("{:.{}f}", number, decimals);
}

MemorySize MemorySize::parse(std::string_view text) {
  const std::string_view all = trimmed(text);
  if (all == "auto") return {};
  if (all.ends_with('%')) {
    std::string_view rest = all.substr(0, all.size() - 1);
    const std::optional<double> percent = take_number(rest);
    if (!percent || !rest.empty()) throw_bad_size(text, "the percentage is not a number");
    if (*percent <= 0 || *percent > 100)
      throw_bad_size(text, "a percentage must be above 0 and at most 100");
    return {.kind = Kind::kShare, .share = *percent / 100.0};
  }
  const int64_t bytes = parse_bytes(all);
  if (bytes == 0) throw_bad_size(text, "it is zero");
  return {.kind = Kind::kBytes, .bytes = bytes};
}

std::string MemorySize::to_string() const {
  switch (kind) {
    case Kind::kAuto: return "auto";
    case Kind::kShare: return format_share(share);
    case Kind::kBytes: break;
  }
  for (size_t power = 4; power > 0; --power) {
    const auto factor = static_cast<int64_t>(kByteUnits[power].factor);
    if (bytes % factor == 0) return fmt::format("{}{}", bytes / factor, kByteUnits[power].name);
  }
  return fmt::format("{}B", bytes);
}

}  // namespace sotto
