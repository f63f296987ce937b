#include "sotto/report/scatter_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace sotto::report {

namespace {

constexpr double kMarker = 5.0;
constexpr double kLabelHeight = 13.0;
constexpr double kMostForName = 0.45;
// Of a name from its point, in the order in which they are tried.
constexpr std::array kDistances = {kMarker + 4.0, 22.0,  38.0,  54.0, 72.0,
                                   90.0,          110.0, 130.0, 150.0};

bool is_shown(const ScatterPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

struct NamePlace {
  Box box;
  // End of the leader line at the name, where the name is not beside its point.
  std::optional<Point> leader;
};

// Tries places around a point, then further away, and returns the first that covers nothing; the
// last one tried where all do.
NamePlace place_of_name(Point at, double width, const Box& room, const std::vector<Box>& taken) {
  NamePlace place;
  for (const double distance : kDistances) {
    const double slanted = 0.7 * distance;
    const std::array<Box, 8> boxes = {
        Box{at.x + distance, at.y - kLabelHeight / 2.0, width, kLabelHeight},
        Box{at.x - distance - width, at.y - kLabelHeight / 2.0, width, kLabelHeight},
        Box{at.x - width / 2.0, at.y - distance - kLabelHeight, width, kLabelHeight},
        Box{at.x - width / 2.0, at.y + distance, width, kLabelHeight},
        Box{at.x + slanted, at.y - slanted - kLabelHeight, width, kLabelHeight},
        Box{at.x + slanted, at.y + slanted, width, kLabelHeight},
        Box{at.x - slanted - width, at.y - slanted - kLabelHeight, width, kLabelHeight},
        Box{at.x - slanted - width, at.y + slanted, width, kLabelHeight}};
    for (const Box& box : boxes) {
      const bool is_inside = box.x >= room.x && box.right() <= room.right() && box.y >= room.y &&
                             box.bottom() <= room.bottom();
      if (!is_inside) continue;
      place.box = box;
      if (distance > 20.0)
        place.leader =
            Point{std::clamp(at.x, box.x, box.right()), std::clamp(at.y, box.y, box.bottom())};
      if (std::ranges::none_of(taken, [&](const Box& other) { return other.overlaps(box); }))
        return place;
    }
  }
  return place;
}

void draw_names(Drawing& drawing, const PlotFrame& frame, const std::vector<ScatterPoint>& points,
                std::vector<Box> taken) {
  const Box room{.x = frame.plot.x + 2.0,
                 .y = frame.plot.y - 14.0,
                 .width = drawing.width() - frame.plot.x - 2.0,
                 .height = frame.plot.height + 12.0};
  for (const ScatterPoint& point : points) {
    const Point at = frame.at(point.x, point.y);
    taken.push_back(
        {at.x - kMarker - 1.0, at.y - kMarker - 1.0, 2.0 * kMarker + 2.0, 2.0 * kMarker + 2.0});
  }
  for (const ScatterPoint& point : points) {
    if (point.name.empty()) continue;
    const std::string name = fit_text(point.name, kFontSize, kMostForName * drawing.width());
    const Point at = frame.at(point.x, point.y);
    const NamePlace place = place_of_name(at, text_width(name, kFontSize), room, taken);
    taken.push_back(place.box);
    if (place.leader) drawing.line(at, *place.leader, "leader");
    drawing.text({.at = {place.box.x, place.box.y + 10.0}, .text = name, .classes = "halo"});
  }
}

// Names of columns stand above the plot, from the left, beside the title of the y axis; one without
// room is left out.
std::vector<Box> draw_columns(Drawing& drawing, const PlotFrame& frame,
                              const std::vector<Limit>& columns) {
  std::vector<Box> taken;
  double free_from = text_width(frame.y.title, kFontSize) + 8.0;
  for (const Limit& column : columns) {
    const double x = frame.at(column.value, frame.y.first).x;
    if (x < frame.plot.x || x > frame.plot.right()) continue;
    drawing.line({x, frame.plot.y}, {x, frame.plot.bottom()}, "mark s5");
    const double width = text_width(column.name, kFontSize);
    const double left = std::min(x - width / 2.0, drawing.width() - width);
    if (left < free_from) continue;
    taken.push_back({left, frame.plot.y - 16.0, width, 13.0});
    drawing.text({.at = {left, frame.plot.y - 5.0}, .text = column.name, .classes = "muted"});
    free_from = left + width + 6.0;
  }
  return taken;
}

}  // namespace

bool ScatterChart::is_empty() const {
  return std::ranges::none_of(points, is_shown);
}

Drawing draw(const ScatterChart& chart) {
  std::vector<ScatterPoint> points;
  std::vector<double> xs, ys;
  for (size_t i = 0; i < chart.points.size(); ++i) {
    if (!is_shown(chart.points[i])) continue;
    points.push_back(chart.points[i]);
    if (points.back().style < 0) points.back().style = static_cast<int>(i);
    xs.push_back(points.back().x);
    ys.push_back(points.back().y);
  }
  const FrameOptions options{.x = chart.x,
                             .y = chart.y,
                             .x_range = range_of(xs),
                             .y_range = range_of(ys),
                             .top = 0.0,
                             .width = chart.width,
                             .plot_height = chart.plot_height,
                             .has_vertical_grid = chart.columns.empty()};
  Drawing drawing(chart.width, frame_height(options));
  const PlotFrame frame = draw_frame(drawing, options);
  const std::vector<Box> taken = draw_columns(drawing, frame, chart.columns);
  if (chart.is_connected) {
    std::vector<Point> line;
    for (const ScatterPoint& point : points) line.push_back(frame.at(point.x, point.y));
    if (line.size() > 1) drawing.polyline(line, "series s0");
  }
  for (const ScatterPoint& point : points) {
    drawing.begin_group(fmt::format("{}: {}, {}", point.name, format_value(point.x, chart.x.unit),
                                    format_value(point.y, chart.y.unit)));
    drawing.marker(frame.at(point.x, point.y), static_cast<size_t>(point.style), kMarker);
    drawing.end_group();
  }
  draw_names(drawing, frame, points, taken);
  return drawing;
}

}  // namespace sotto::report
