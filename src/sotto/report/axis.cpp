#include "sotto/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "sotto/core/units.h"

namespace sotto::report {

namespace {

// What ticks are divided by, and its name.
struct TickUnit {
  double factor = 1.0;
  std::string name = {};
};

struct NamedFactor {
  double factor;
  const char* name;
};
constexpr std::array kByteUnits = {
    NamedFactor{1024.0 * 1024 * 1024 * 1024, "TiB"}, NamedFactor{1024.0 * 1024 * 1024, "GiB"},
    NamedFactor{1024.0 * 1024, "MiB"}, NamedFactor{1024.0, "KiB"}, NamedFactor{1.0, "B"}};
// An axis in hours is readable from 2 h on, and so on.
constexpr std::array kTimeUnits = {NamedFactor{3600.0, "h"}, NamedFactor{60.0, "min"}};

std::string superscript(int number) {
  constexpr std::array<const char*, 10> kDigits = {"⁰", "¹", "²", "³", "⁴",
                                                   "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = number < 0 ? "⁻" : "";
  for (const char digit : std::to_string(std::abs(number)))
    text += kDigits[static_cast<size_t>(digit - '0')];
  return text;
}

TickUnit unit_of_numbers(double most) {
  if (most >= 1e-2 && most < 1e5) return {};
  const int exponent = static_cast<int>(std::floor(std::log10(most) + 1e-9));
  return {.factor = std::pow(10.0, exponent), .name = "×10" + superscript(exponent)};
}

TickUnit tick_unit(Unit unit, double most) {
  if (!(most > 0.0)) most = 1.0;
  switch (unit) {
    case Unit::kNumber: return unit_of_numbers(most);
    case Unit::kCount:
      if (most >= 1e9) return {.factor = 1e9, .name = "billions"};
      if (most >= 2e6) return {.factor = 1e6, .name = "millions"};
      return {};
    case Unit::kShare: return {.factor = 0.01, .name = "%"};
    case Unit::kBytes:
      for (const NamedFactor& entry : kByteUnits)
        if (most >= entry.factor) return {.factor = entry.factor, .name = entry.name};
      return {.factor = 1.0, .name = "B"};
    case Unit::kSeconds:
      for (const NamedFactor& entry : kTimeUnits)
        if (most >= 2.0 * entry.factor) return {.factor = entry.factor, .name = entry.name};
      if (most >= 1.0) return {.factor = 1.0, .name = "s"};
      if (most >= 1e-3) return {.factor = 1e-3, .name = "ms"};
      return {.factor = 1e-6, .name = "µs"};
  }
  return {};
}

// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `step`.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= step * (1.0 - 1e-9)) return factor * power;
  return 10.0 * power;
}

// `step`: between two ticks, which need its decimals.
std::string tick_label(double value, double step, Unit unit) {
  if (unit == Unit::kCount && step >= 1.0) return format_count(std::llround(value));
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  return text.starts_with("-0") && value == 0.0 ? text.substr(1) : text;
}

ValueRange widened(const ValueRange& range) {
  if (range.most > range.least) return range;
  // One value alone is in the middle of its axis.
  const double room = range.least == 0.0 ? 1.0 : 0.1 * std::abs(range.least);
  return {.least = range.least - room, .most = range.most + room};
}

// Numbers of the first and the last tick for a range in steps: those around it, or those inside.
double first_tick(const Axis& axis, double least) {
  return axis.ends_at_tick ? std::floor(least + 1e-9) : std::ceil(least - 1e-9);
}

double last_tick(const Axis& axis, double most) {
  return axis.ends_at_tick ? std::ceil(most - 1e-9) : std::floor(most + 1e-9);
}

Scale linear_scale(const Axis& axis, ValueRange range, int max_ticks) {
  if (axis.has_zero)
    range = {.least = std::min(0.0, range.least), .most = std::max(0.0, range.most)};
  if (axis.has_zero && range.most == range.least) range.most = 1.0;
  range = widened(range);
  const TickUnit unit = tick_unit(axis.unit, std::max(std::abs(range.least), std::abs(range.most)));
  const double least = range.least / unit.factor;
  const double most = range.most / unit.factor;
  double step = round_step((most - least) / max_ticks);
  if (axis.unit == Unit::kCount && unit.factor == 1.0) step = std::max(step, 1.0);
  while (last_tick(axis, most / step) - first_tick(axis, least / step) + 1.0 > max_ticks)
    step = round_step(step * 1.01);
  Scale scale{.title = axis.title};
  if (!unit.name.empty())
    scale.title += axis.title.empty() ? unit.name : fmt::format(", {}", unit.name);
  const double first = first_tick(axis, least / step);
  double last = last_tick(axis, most / step);
  if (axis.ends_at_tick) last = std::max(last, first + 1.0);
  const auto num_ticks = static_cast<int>(std::lround(last - first)) + 1;
  for (int i = 0; i < num_ticks; ++i) {
    const double at = (first + i) * step;
    scale.ticks.push_back({.value = at * unit.factor, .label = tick_label(at, step, axis.unit)});
  }
  scale.first = axis.ends_at_tick ? first * step * unit.factor : range.least;
  scale.last = axis.ends_at_tick ? last * step * unit.factor : range.most;
  // Steps of whole numbers may be longer than the axis.
  std::erase_if(scale.ticks, [&](const Tick& tick) {
    return scale.position(tick.value) < -1e-6 || scale.position(tick.value) > 1.0 + 1e-6;
  });
  return scale;
}

// Round values per decade, or per factor of 1,024 for bytes, from the sparsest to the densest.
std::vector<std::vector<double>> log_grids(Unit unit) {
  if (unit == Unit::kBytes)
    return {{1.0},
            {1.0, 32.0},
            {1.0, 8.0, 64.0},
            {1.0, 4.0, 16.0, 64.0, 256.0},
            {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0}};
  return {{1.0}, {1.0, 3.0}, {1.0, 2.0, 5.0}, {1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0}};
}

std::vector<Tick> log_ticks(const Axis& axis, const ValueRange& range, int max_ticks) {
  const double base = axis.unit == Unit::kBytes ? 1024.0 : 10.0;
  const int low = static_cast<int>(std::floor(std::log(range.least) / std::log(base) - 1e-9));
  const int high = static_cast<int>(std::ceil(std::log(range.most) / std::log(base) + 1e-9));
  std::vector<Tick> best;
  for (const std::vector<double>& grid : log_grids(axis.unit)) {
    std::vector<Tick> ticks;
    for (int power = low; power <= high; ++power) {
      for (const double factor : grid) {
        const double value = factor * std::pow(base, power);
        if (value < range.least * (1.0 - 1e-9) || value > range.most * (1.0 + 1e-9)) continue;
        ticks.push_back({.value = value, .label = format_value(value, axis.unit)});
      }
    }
    if (std::ssize(ticks) > max_ticks) break;
    best = std::move(ticks);
  }
  return best;
}

Scale log_scale(const Axis& axis, ValueRange range, int max_ticks) {
  if (range.least == range.most) range = {.least = range.least / 1.5, .most = range.most * 1.5};
  Scale scale{.title = axis.title, .first = range.least, .last = range.most, .is_log = true};
  scale.ticks = log_ticks(axis, range, max_ticks);
  if (scale.ticks.size() >= 2) return scale;
  // A short range has few round values: those of a linear axis are used.
  Axis linear = axis;
  linear.has_zero = linear.ends_at_tick = false;
  const Scale other = linear_scale(linear, range, max_ticks);
  scale.title = other.title;
  scale.ticks = other.ticks;
  return scale;
}

}  // namespace

std::string format_count(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t sign = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > sign + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string format_value(double value, Unit unit) {
  if (!std::isfinite(value)) return "-";
  switch (unit) {
    case Unit::kBytes: return format_bytes(std::llround(value));
    case Unit::kSeconds: return value == 0.0 ? "0 s" : format_duration(value);
    case Unit::kShare: return fmt::format("{:.1f} %", 100.0 * value);
    case Unit::kCount: return format_count(std::llround(value));
    case Unit::kNumber: break;
  }
  const double size = std::abs(value);
  if (size >= 1e3) return format_count(std::llround(value));
  if (size >= 100.0 || value == 0.0) return fmt::format("{:.0f}", value);
  if (size >= 1e-3) return fmt::format("{:#.3g}", value);
  const int exponent = static_cast<int>(std::floor(std::log10(size) + 1e-9));
  return fmt::format("{:.3g}×10{}", value / std::pow(10.0, exponent), superscript(exponent));
}

ValueRange range_of(const std::vector<double>& values) {
  ValueRange range{.least = std::numeric_limits<double>::infinity(),
                   .most = -std::numeric_limits<double>::infinity()};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    range = {.least = std::min(range.least, value), .most = std::max(range.most, value)};
  }
  return range.least > range.most ? ValueRange{} : range;
}

double Scale::position(double value) const {
  if (is_log) return std::log(value / first) / std::log(last / first);
  return (value - first) / (last - first);
}

Scale make_scale(const Axis& axis, const ValueRange& range, int max_ticks) {
  if (axis.is_log && range.least > 0.0) return log_scale(axis, range, max_ticks);
  return linear_scale(axis, range, max_ticks);
}

}  // namespace sotto::report
