#include "sotto/report/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sotto::report {

namespace {

constexpr double kBar = 15.0;
constexpr double kGap = 10.0;
// The names take at most this share of the width.
constexpr double kMostForNames = 0.42;

struct BarLayout {
  double left = 0.0;
  double width = 0.0;
  Scale scale = {};
  double row_height = 0.0;
  double top = 0.0;

  double x_of(double value) const { return left + width * scale.position(value); }
};

double total_of(const BarRow& row) {
  double total = 0.0;
  for (const double value : row.values)
    if (std::isfinite(value)) total += value;
  return total;
}

std::vector<double> ends_of(const BarChart& chart) {
  std::vector<double> ends;
  for (const BarRow& row : chart.rows) {
    if (chart.is_stacked) {
      ends.push_back(total_of(row));
    } else {
      ends.insert(ends.end(), row.values.begin(), row.values.end());
    }
  }
  return ends;
}

std::vector<LegendEntry> legend_of(const BarChart& chart) {
  std::vector<LegendEntry> entries;
  if (chart.series.size() < 2) return entries;
  for (size_t i = 0; i < chart.series.size(); ++i)
    entries.push_back({.name = chart.series[i], .kind = LegendEntry::Kind::kBox, .style = i});
  return entries;
}

BarLayout layout_of(const BarChart& chart, double top) {
  BarLayout layout{.top = top};
  double names = 0.0, values = 0.0;
  for (const BarRow& row : chart.rows) names = std::max(names, text_width(row.name, kFontSize));
  const std::vector<double> ends = ends_of(chart);
  for (const double value : ends)
    values = std::max(values, text_width(format_value(value, chart.value.unit), kFontSize));
  layout.left = std::min(names, kMostForNames * chart.width) + 8.0;
  // The text at the end of a bar.
  layout.width = chart.width - layout.left - values - 10.0;
  ValueRange range = range_of(ends);
  for (const Limit& limit : chart.limits) range.most = std::max(range.most, limit.value);
  Axis axis = chart.value;
  axis.ends_at_tick = false;
  layout.scale = make_scale(axis, range, std::max(2, static_cast<int>(layout.width / 56.0)));
  const auto num_bars = static_cast<double>(chart.is_stacked ? 1 : chart.series.size());
  layout.row_height = num_bars * kBar + kGap;
  return layout;
}

void draw_bar(Drawing& drawing, const Box& box, size_t style, const std::string& tooltip) {
  drawing.begin_group(tooltip);
  drawing.box(box, fmt::format("f{}", style % kNumStyles));
  drawing.end_group();
}

void draw_stacked(Drawing& drawing, const BarChart& chart, const BarLayout& layout, size_t index) {
  const BarRow& row = chart.rows[index];
  const double y = layout.top + static_cast<double>(index) * layout.row_height + kGap / 2.0;
  double sum = 0.0;
  for (size_t i = 0; i < row.values.size(); ++i) {
    const double value = row.values[i];
    if (!std::isfinite(value) || value <= 0.0) continue;
    const double from = layout.x_of(sum);
    sum += value;
    // A narrow gap separates neighbours.
    draw_bar(
        drawing,
        {.x = from, .y = y, .width = std::max(0.5, layout.x_of(sum) - from - 0.7), .height = kBar},
        i,
        fmt::format("{}, {}: {}", row.name, chart.series[i],
                    format_value(value, chart.value.unit)));
  }
  drawing.text({.at = {layout.x_of(sum) + 6.0, y + kBar - 3.5},
                .text = format_value(sum, chart.value.unit)});
}

void draw_side_by_side(Drawing& drawing, const BarChart& chart, const BarLayout& layout,
                       size_t index) {
  const BarRow& row = chart.rows[index];
  double y = layout.top + static_cast<double>(index) * layout.row_height + kGap / 2.0;
  for (size_t i = 0; i < row.values.size(); ++i, y += kBar) {
    const double value = row.values[i];
    const std::string text = format_value(value, chart.value.unit);
    double end = layout.left;
    if (std::isfinite(value)) {
      end = layout.x_of(value);
      const size_t style =
          chart.series.size() > 1 ? i : static_cast<size_t>(std::max(0, row.style));
      const std::string title = fmt::format(
          "{}{}{}: {}", row.name, chart.series[i].empty() ? "" : ", ", chart.series[i], text);
      draw_bar(drawing,
               {.x = layout.left,
                .y = y + 1.0,
                .width = std::max(0.5, end - layout.left),
                .height = kBar - 2.0},
               style, title);
    }
    drawing.text({.at = {end + 6.0, y + kBar - 3.5},
                  .text = text,
                  .classes = std::isfinite(value) ? "" : "muted"});
  }
}

}  // namespace

bool BarChart::is_empty() const {
  return std::ranges::none_of(ends_of(*this), [](double end) { return std::isfinite(end); });
}

Drawing draw(const BarChart& chart) {
  const std::vector<LegendEntry> legend = legend_of(chart);
  const double top = legend_height(legend, chart.width) + (chart.limits.empty() ? 0.0 : 18.0);
  const BarLayout layout = layout_of(chart, top);
  const double bottom = top + static_cast<double>(chart.rows.size()) * layout.row_height;
  Drawing drawing(chart.width, bottom + 38.0);
  draw_legend(drawing, legend);
  for (const Tick& tick : layout.scale.ticks) {
    const double x = layout.x_of(tick.value);
    drawing.line({x, top}, {x, bottom}, "grid");
    drawing.text({.at = {x, bottom + 15.0},
                  .text = tick.label,
                  .anchor = Anchor::kMiddle,
                  .classes = "muted"});
  }
  drawing.text({.at = {layout.left + layout.width, bottom + 32.0},
                .text = layout.scale.title,
                .anchor = Anchor::kEnd,
                .classes = "muted"});
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const double middle = top + (static_cast<double>(i) + 0.5) * layout.row_height;
    drawing.text({.at = {layout.left - 8.0, middle + 4.0},
                  .text = fit_text(chart.rows[i].name, kFontSize, layout.left - 8.0),
                  .anchor = Anchor::kEnd});
    if (chart.is_stacked) {
      draw_stacked(drawing, chart, layout, i);
    } else {
      draw_side_by_side(drawing, chart, layout, i);
    }
  }
  for (const Limit& limit : chart.limits) {
    const double x = layout.x_of(limit.value);
    drawing.line({x, top - 4.0}, {x, bottom}, "limit");
    drawing.text({.at = {x, top - 7.0}, .text = limit.name, .anchor = Anchor::kEnd});
  }
  drawing.line({layout.left, top}, {layout.left, bottom}, "axis");
  return drawing;
}

}  // namespace sotto::report
