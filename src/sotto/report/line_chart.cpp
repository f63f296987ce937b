#include "sotto/report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sotto::report {

namespace {

// More points would not be seen at a chart's width.
constexpr size_t kMostPoints = 600;
// Curves with at most this many points show each of them.
constexpr size_t kFewPoints = 24;
// Colours of marks, which differ from those of the first series.
constexpr size_t kFirstMarkStyle = 3;

size_t style_of(const LineChart& chart, size_t index) {
  const int style = chart.series[index].style;
  return style >= 0 ? static_cast<size_t>(style) : index;
}

std::vector<LegendEntry> legend_of(const LineChart& chart) {
  std::vector<LegendEntry> entries;
  const bool names_series = chart.series.size() > 1;
  for (size_t i = 0; names_series && i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    entries.push_back(
        {.name = series.name,
         .kind = series.is_faint ? LegendEntry::Kind::kFaintLine : LegendEntry::Kind::kLine,
         .style = style_of(chart, i)});
  }
  for (size_t i = 0; i < chart.marks.size(); ++i)
    entries.push_back({.name = chart.marks[i].name,
                       .kind = LegendEntry::Kind::kMark,
                       .style = kFirstMarkStyle + i});
  return entries;
}

// Of each stretch of points the lowest and the highest are kept, so that no peak is lost.
std::vector<size_t> points_to_draw(const Series& series) {
  std::vector<size_t> kept;
  const size_t stretch = series.y.size() / (kMostPoints / 2) + 1;
  for (size_t begin = 0; begin < series.y.size(); begin += stretch) {
    const size_t end = std::min(begin + stretch, series.y.size());
    size_t low = begin, high = begin;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(series.y[i])) continue;
      if (!(series.y[i] >= series.y[low])) low = i;
      if (!(series.y[i] <= series.y[high])) high = i;
    }
    kept.push_back(std::min(low, high));
    if (low != high) kept.push_back(std::max(low, high));
  }
  return kept;
}

bool is_drawable(const Axis& axis, double value) {
  return std::isfinite(value) && (!axis.is_log || value > 0.0);
}

void draw_series(Drawing& drawing, const PlotFrame& frame, const LineChart& chart, size_t index) {
  const Series& series = chart.series[index];
  const size_t style = style_of(chart, index) % kNumStyles;
  const std::string classes = series.is_faint ? fmt::format("series faint s{}", style)
                                              : fmt::format("series s{0} d{0}", style);
  const bool has_markers =
      !series.is_faint && (series.has_markers || series.y.size() <= kFewPoints);
  std::vector<Point> piece;
  const auto end_piece = [&] {
    if (piece.size() > 1) drawing.polyline(piece, classes);
    if (has_markers || piece.size() == 1)
      for (const Point& point : piece) drawing.marker(point, style, 3.0);
    piece.clear();
  };
  for (const size_t i : points_to_draw(series)) {
    if (is_drawable(chart.y, series.y[i]) && is_drawable(chart.x, series.x[i])) {
      piece.push_back(frame.at(series.x[i], series.y[i]));
    } else {
      end_piece();
    }
  }
  end_piece();
}

void draw_marks(Drawing& drawing, const PlotFrame& frame, const LineChart& chart) {
  for (size_t i = 0; i < chart.marks.size(); ++i) {
    for (const double x : chart.marks[i].x) {
      const double at = frame.at(x, frame.y.first).x;
      drawing.begin_group(fmt::format("{}: {} {}", chart.marks[i].name, chart.x.title,
                                      format_value(x, chart.x.unit)));
      drawing.line({at, frame.plot.y}, {at, frame.plot.bottom()},
                   fmt::format("mark s{}", (kFirstMarkStyle + i) % kNumStyles));
      drawing.end_group();
    }
  }
}

ValueRange range_in(const Axis& axis, std::vector<double> values) {
  if (axis.is_log) std::erase_if(values, [](double value) { return !(value > 0.0); });
  return range_of(values);
}

}  // namespace

bool LineChart::is_empty() const {
  return std::ranges::none_of(series, [&](const Series& one) {
    return std::ranges::any_of(one.y, [&](double one_y) { return is_drawable(y, one_y); });
  });
}

Drawing draw(const LineChart& chart) {
  std::vector<double> xs, ys;
  for (const Series& series : chart.series) {
    xs.insert(xs.end(), series.x.begin(), series.x.end());
    ys.insert(ys.end(), series.y.begin(), series.y.end());
  }
  for (const Limit& limit : chart.limits) ys.push_back(limit.value);
  const std::vector<LegendEntry> legend = legend_of(chart);
  FrameOptions options{.x = chart.x,
                       .y = chart.y,
                       .x_range = range_in(chart.x, std::move(xs)),
                       .y_range = range_in(chart.y, std::move(ys)),
                       .top = legend_height(legend, chart.width),
                       .width = chart.width,
                       .plot_height = chart.plot_height};
  Drawing drawing(chart.width, frame_height(options));
  draw_legend(drawing, legend);
  const PlotFrame frame = draw_frame(drawing, options);
  draw_marks(drawing, frame, chart);
  for (const bool is_faint : {true, false}) {
    for (size_t i = 0; i < chart.series.size(); ++i)
      if (chart.series[i].is_faint == is_faint) draw_series(drawing, frame, chart, i);
  }
  draw_limits(drawing, frame, chart.limits);
  return drawing;
}

std::vector<double> moving_average(const std::vector<double>& values, size_t count) {
  std::vector<double> averages;
  const size_t before = count / 2;
  for (size_t i = 0; i < values.size(); ++i) {
    double sum = 0.0;
    size_t num = 0;
    const size_t end = std::min(values.size(), i + count - before);
    for (size_t j = i < before ? 0 : i - before; j < end; ++j) {
      if (!std::isfinite(values[j])) continue;
      sum += values[j];
      ++num;
    }
    averages.push_back(num > 0 ? sum / static_cast<double>(num) : std::nan(""));
  }
  return averages;
}

}  // namespace sotto::report
