// What charts have in common: the legend above the plot, axes with ticks, and the plot's box.
#pragma once

#include <string>
#include <vector>

#include "sotto/report/axis.h"
#include "sotto/report/svg.h"

namespace sotto::report {

// Width of a chart, in units of which a page shows a few more than pixels.
inline constexpr double kChartWidth = 440.0;
inline constexpr double kWideChartWidth = 900.0;
inline constexpr double kPlotHeight = 190.0;

struct LegendEntry {
  enum class Kind { kLine, kFaintLine, kBox, kMarker, kMark };

  std::string name;
  Kind kind = Kind::kLine;
  size_t style = 0;
};

// Height that draw_legend() needs, 0 without entries.
double legend_height(const std::vector<LegendEntry>& entries, double width);
// Draws the entries in rows from the top of the drawing.
void draw_legend(Drawing& drawing, const std::vector<LegendEntry>& entries);

// A horizontal line at a value, such as a budget.
struct Limit {
  std::string name;
  double value = 0.0;
};

struct PlotFrame {
  Box plot;
  Scale x;
  Scale y;

  Point at(double x_value, double y_value) const;
};

struct FrameOptions {
  Axis x;
  Axis y;
  ValueRange x_range;
  ValueRange y_range;
  // Offset of the plot's title row: below the legend.
  double top = 0.0;
  double width = kChartWidth;
  double plot_height = kPlotHeight;
  // Vertical grid lines too: for scatter plots.
  bool has_vertical_grid = false;
  // Otherwise the axis is a line without ticks, whose labels the caller draws.
  bool has_x_ticks = true;
};

// Height of a drawing with this frame, from its top to below the title of the x axis.
double frame_height(const FrameOptions& options);
PlotFrame draw_frame(Drawing& drawing, const FrameOptions& options);

// Draws limits with their names, which do not cover each other.
void draw_limits(Drawing& drawing, const PlotFrame& frame, const std::vector<Limit>& limits);

}  // namespace sotto::report
