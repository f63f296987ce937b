// Axes of charts: ticks at round values, units that people read, positions between 0 and 1.
//
//   const Scale scale = make_scale({.title = "memory", .unit = Unit::kBytes}, {0.0, 3.1e9}, 6);
//   scale.title;               // "memory, GiB"
//   scale.position(1.5e9);     // 0.47
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sotto::report {

enum class Unit { kNumber, kCount, kBytes, kSeconds, kShare };

// Formats one value for people: "7.38 GiB", "12.5 s", "14.2 %", "12,345". NaN: "-".
std::string format_value(double value, Unit unit);

// Formats an integer with separators: "12,345".
std::string format_count(int64_t value);

struct Axis {
  std::string title = {};
  Unit unit = Unit::kNumber;
  // Ignored where a value is not above 0.
  bool is_log = false;
  // A linear axis starts at 0; otherwise at the smallest value.
  bool has_zero = true;
  // Ends at a tick; otherwise at the largest value.
  bool ends_at_tick = true;
};

struct ValueRange {
  double least = 0.0;
  double most = 0.0;
};

// ValueRange of the finite values; {0, 0} where there is none.
ValueRange range_of(const std::vector<double>& values);

struct Tick {
  double value = 0.0;
  std::string label;
};

struct Scale {
  // With the unit of the ticks.
  std::string title;
  double first = 0.0;
  double last = 1.0;
  bool is_log = false;
  std::vector<Tick> ticks = {};

  // 0 at the start of the axis, 1 at its end; outside of it beyond.
  double position(double value) const;
};

// Returns a scale that covers the range with at most `max_ticks` ticks, at least 2.
Scale make_scale(const Axis& axis, const ValueRange& range, int max_ticks);

}  // namespace sotto::report
