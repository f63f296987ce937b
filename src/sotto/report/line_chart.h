// Curves over a common axis, with limits and marked events.
//
//   Figure figure{.title = "Loss",
//                 .drawing = draw({.x = {.title = "step", .unit = Unit::kCount},
//                                  .y = {.title = "loss"},
//                                  .series = {{.name = "training", .x = steps, .y = losses}}})};
#pragma once

#include <string>
#include <vector>

#include "sotto/report/plot_frame.h"

namespace sotto::report {

struct Series {
  std::string name;
  // As long as each other. A value that is not finite interrupts the curve.
  std::vector<double> x;
  std::vector<double> y;
  // Thin and pale, behind the others: single values beside their average.
  bool is_faint = false;
  // Points only where true; a curve with few points has them in any case.
  bool has_markers = false;
  // Colour, dashes and marker; -1: the position among the series.
  int style = -1;
};

// Vertical lines at events of one kind.
struct Marks {
  std::string name;
  std::vector<double> x;
};

struct LineChart {
  Axis x = {};
  Axis y = {};
  std::vector<Series> series = {};
  std::vector<Limit> limits = {};
  std::vector<Marks> marks = {};
  double width = kChartWidth;
  double plot_height = kPlotHeight;

  // Whether there is anything to draw.
  bool is_empty() const;
};

Drawing draw(const LineChart& chart);

// Returns the moving average over `count` finite values around each.
std::vector<double> moving_average(const std::vector<double>& values, size_t count);

}  // namespace sotto::report
