// Memory over the moments of one step, stacked by category, with the peak marked.
#pragma once

#include <string>
#include <vector>

#include "sotto/report/plot_frame.h"

namespace sotto::report {

struct TimelineMoment {
  // One per series.
  std::vector<double> values;
  // Adjacent moments with the same band share a background and its name: "forward".
  std::string band;

  double total() const;
};

struct TimelineChart {
  Axis y = {};
  std::vector<std::string> series = {};
  std::vector<TimelineMoment> moments = {};
  std::vector<Limit> limits = {};
  // Text beside the highest moment; empty: not marked.
  std::string peak = {};
  double width = kWideChartWidth;
  double plot_height = 220.0;

  bool is_empty() const { return moments.empty(); }
};

Drawing draw(const TimelineChart& chart);

}  // namespace sotto::report
