// Points with names that do not cover each other.
//
//   draw({.x = {.title = "memory", .unit = Unit::kBytes},
//         .y = {.title = "WER", .unit = Unit::kShare},
//         .points = {{.x = 2e9, .y = 0.12, .name = "baseline"}}});
#pragma once

#include <string>
#include <vector>

#include "sotto/report/plot_frame.h"

namespace sotto::report {

struct ScatterPoint {
  double x = 0.0;
  double y = 0.0;
  std::string name;
  // Colour and marker; -1: the position among the points.
  int style = -1;
};

struct ScatterChart {
  Axis x = {};
  Axis y = {};
  // Points that are not finite are left out.
  std::vector<ScatterPoint> points = {};
  // Vertical lines with names: sizes of cards.
  std::vector<Limit> columns = {};
  // The points are connected in their order.
  bool is_connected = false;
  double width = kChartWidth;
  double plot_height = 230.0;

  bool is_empty() const;
};

Drawing draw(const ScatterChart& chart);

}  // namespace sotto::report
