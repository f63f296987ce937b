// Horizontal bars, side by side or stacked, one group per row.
//
//   draw({.value = {.title = "memory", .unit = Unit::kBytes},
//         .series = {"planned", "measured"},
//         .rows = {{.name = "weights", .values = {1e6, 1e6}}}});
#pragma once

#include <string>
#include <vector>

#include "sotto/report/plot_frame.h"

namespace sotto::report {

struct BarRow {
  std::string name;
  // One per series; NaN: there is none.
  std::vector<double> values;
  // Colour of a chart of one series; -1: the first.
  int style = -1;
};

struct BarChart {
  Axis value = {};
  std::vector<std::string> series = {""};
  std::vector<BarRow> rows = {};
  // The series of a row follow each other; its end shows the total.
  bool is_stacked = false;
  std::vector<Limit> limits = {};
  double width = kChartWidth;

  bool is_empty() const;
};

Drawing draw(const BarChart& chart);

}  // namespace sotto::report
