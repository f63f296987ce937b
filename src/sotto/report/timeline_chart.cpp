#include "sotto/report/timeline_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace sotto::report {

namespace {

constexpr size_t kMostColumns = 450;

std::vector<LegendEntry> legend_of(const TimelineChart& chart) {
  std::vector<LegendEntry> entries;
  for (size_t i = 0; chart.series.size() > 1 && i < chart.series.size(); ++i)
    entries.push_back({.name = chart.series[i], .kind = LegendEntry::Kind::kBox, .style = i});
  return entries;
}

// Of adjacent moments the highest is kept where there are more than columns.
std::vector<TimelineMoment> columns_of(const std::vector<TimelineMoment>& moments) {
  std::vector<TimelineMoment> columns;
  const size_t stretch = moments.size() / kMostColumns + 1;
  for (size_t begin = 0; begin < moments.size(); begin += stretch) {
    const auto first = moments.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        moments.begin() + static_cast<std::ptrdiff_t>(std::min(begin + stretch, moments.size()));
    columns.push_back(*std::max_element(
        first, last, [](const auto& a, const auto& b) { return a.total() < b.total(); }));
  }
  return columns;
}

void draw_bands(Drawing& drawing, const PlotFrame& frame,
                const std::vector<TimelineMoment>& columns) {
  bool is_shaded = false;
  for (size_t begin = 0; begin < columns.size();) {
    size_t end = begin;
    while (end < columns.size() && columns[end].band == columns[begin].band) ++end;
    const double from = frame.at(static_cast<double>(begin), 0.0).x;
    const double to = frame.at(static_cast<double>(end), 0.0).x;
    if (is_shaded)
      drawing.box({.x = from, .y = frame.plot.y, .width = to - from, .height = frame.plot.height},
                  "band");
    std::string name = columns[begin].band;
    // Where "micro-batch 12" has no room, "12" may have.
    if (text_width(name, kFontSize) > to - from) name.erase(0, name.rfind(' ') + 1);
    if (text_width(name, kFontSize) < to - from)
      drawing.text({.at = {(from + to) / 2.0, frame.plot.bottom() + 16.0},
                    .text = name,
                    .anchor = Anchor::kMiddle,
                    .classes = "muted"});
    is_shaded = !is_shaded;
    begin = end;
  }
}

// Draws the stack from its lowest series to its highest, as steps.
void draw_stack(Drawing& drawing, const PlotFrame& frame, size_t num_series,
                const std::vector<TimelineMoment>& columns) {
  std::vector<double> below(columns.size(), 0.0);
  for (size_t series = 0; series < num_series; ++series) {
    std::vector<Point> upper, lower;
    for (size_t i = 0; i < columns.size(); ++i) {
      const double low = below[i];
      below[i] += columns[i].values[series];
      for (const size_t x : {i, i + 1}) {
        lower.push_back(frame.at(static_cast<double>(x), low));
        upper.push_back(frame.at(static_cast<double>(x), below[i]));
      }
    }
    upper.insert(upper.end(), lower.rbegin(), lower.rend());
    drawing.polygon(upper, fmt::format("area f{}", series % kNumStyles));
  }
}

void draw_peak(Drawing& drawing, const PlotFrame& frame, const std::string& name,
               const std::vector<TimelineMoment>& columns) {
  const auto highest = std::ranges::max_element(columns, {}, &TimelineMoment::total);
  const auto index = static_cast<double>(highest - columns.begin());
  const Point at = frame.at(index + 0.5, highest->total());
  drawing.line({at.x, frame.plot.y}, {at.x, frame.plot.bottom()}, "limit");
  const std::string text = fit_text(name, kFontSize, 0.6 * frame.plot.width);
  const double width = text_width(text, kFontSize);
  const bool is_left = at.x + 8.0 + width > frame.plot.right();
  drawing.text({.at = {is_left ? at.x - 7.0 : at.x + 7.0, frame.plot.y - 5.0},
                .text = text,
                .anchor = is_left ? Anchor::kEnd : Anchor::kStart,
                .classes = "strong halo"});
}

}  // namespace

double TimelineMoment::total() const {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

Drawing draw(const TimelineChart& chart) {
  const std::vector<TimelineMoment> columns = columns_of(chart.moments);
  std::vector<double> heights;
  for (const TimelineMoment& column : columns) heights.push_back(column.total());
  for (const Limit& limit : chart.limits) heights.push_back(limit.value);
  const std::vector<LegendEntry> legend = legend_of(chart);
  FrameOptions options{.x = {.unit = Unit::kCount, .has_zero = false, .ends_at_tick = false},
                       .y = chart.y,
                       .x_range = {.least = 0.0, .most = static_cast<double>(columns.size())},
                       .y_range = range_of(heights),
                       .top = legend_height(legend, chart.width),
                       .width = chart.width,
                       .plot_height = chart.plot_height};
  Drawing drawing(chart.width, frame_height(options));
  draw_legend(drawing, legend);
  options.has_x_ticks = false;
  const PlotFrame frame = draw_frame(drawing, options);
  draw_bands(drawing, frame, columns);
  draw_stack(drawing, frame, std::max<size_t>(1, chart.series.size()), columns);
  draw_limits(drawing, frame, chart.limits);
  if (!chart.peak.empty()) draw_peak(drawing, frame, chart.peak, columns);
  return drawing;
}

}  // namespace sotto::report
