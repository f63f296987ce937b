#include "sotto/report/plot_frame.h"

#include <fmt/format.h>

#include <algorithm>

namespace sotto::report {

namespace {

constexpr double kLegendRow = 18.0;
constexpr double kSwatch = 22.0;
constexpr double kNarrowSwatch = 12.0;
constexpr double kLegendGap = 16.0;
// The title of the y axis stands above its highest label.
constexpr double kYTitleRow = 26.0;
constexpr double kXTitleRow = 18.0;
constexpr double kTickRow = 18.0;
// Fewest units of a chart's width between ticks of its x axis, and of its height for the y axis.
constexpr double kTickSpace = 62.0;
constexpr int kMostYTicks = 6;

struct Placed {
  const LegendEntry* entry;
  Point at;
};

double swatch_width(const LegendEntry& entry) {
  return entry.kind == LegendEntry::Kind::kLine || entry.kind == LegendEntry::Kind::kFaintLine
             ? kSwatch
             : kNarrowSwatch;
}

double entry_width(const LegendEntry& entry) {
  return swatch_width(entry) + 5.0 + text_width(entry.name, kFontSize) + kLegendGap;
}

std::vector<Placed> place_entries(const std::vector<LegendEntry>& entries, double width) {
  std::vector<Placed> placed;
  Point at{.x = 0.0, .y = 12.0};
  for (const LegendEntry& entry : entries) {
    const double needed = entry_width(entry);
    if (at.x > 0.0 && at.x + needed - kLegendGap > width) at = {.x = 0.0, .y = at.y + kLegendRow};
    placed.push_back({.entry = &entry, .at = at});
    at.x += needed;
  }
  return placed;
}

void draw_swatch(Drawing& drawing, const LegendEntry& entry, Point at) {
  const double middle = at.y - 4.0;
  const std::string stroke = fmt::format("s{}", entry.style % kNumStyles);
  switch (entry.kind) {
    case LegendEntry::Kind::kLine:
      drawing.line({at.x, middle}, {at.x + kSwatch, middle},
                   fmt::format("series {} d{}", stroke, entry.style % kNumStyles));
      break;
    case LegendEntry::Kind::kFaintLine:
      drawing.line({at.x, middle}, {at.x + kSwatch, middle}, "series faint " + stroke);
      break;
    case LegendEntry::Kind::kBox:
      drawing.box({.x = at.x, .y = at.y - 10.0, .width = 12.0, .height = 12.0},
                  fmt::format("f{}", entry.style % kNumStyles));
      break;
    case LegendEntry::Kind::kMarker:
      drawing.marker({at.x + kNarrowSwatch / 2.0, middle}, entry.style, 4.5);
      break;
    case LegendEntry::Kind::kMark:
      drawing.line({at.x + kNarrowSwatch / 2.0, at.y - 11.0},
                   {at.x + kNarrowSwatch / 2.0, at.y + 3.0}, "mark " + stroke);
      break;
  }
}

double widest_label(const Scale& scale) {
  double width = 0.0;
  for (const Tick& tick : scale.ticks) width = std::max(width, text_width(tick.label, kFontSize));
  return width;
}

// Place of the name of a limit: above its line at the right, else below it, else to the left of
// another name. `line`: x is the width of the name, y the height of the line.
Box place_name(const PlotFrame& frame, Point line, const std::vector<Box>& taken) {
  Box box;
  for (const double shift : {0.0, 0.5}) {
    for (const double above : {15.0, -3.0}) {
      box = {.x = frame.plot.right() - line.x - 4.0 - shift * frame.plot.width,
             .y = line.y - above,
             .width = line.x,
             .height = 13.0};
      const auto covers = [&](const Box& other) { return other.overlaps(box); };
      const bool is_inside = box.x >= frame.plot.x && box.bottom() <= frame.plot.bottom();
      if (is_inside && std::ranges::none_of(taken, covers)) return box;
    }
  }
  return box;
}

}  // namespace

double legend_height(const std::vector<LegendEntry>& entries, double width) {
  if (entries.empty()) return 0.0;
  return place_entries(entries, width).back().at.y + 10.0;
}

void draw_legend(Drawing& drawing, const std::vector<LegendEntry>& entries) {
  for (const Placed& placed : place_entries(entries, drawing.width())) {
    draw_swatch(drawing, *placed.entry, placed.at);
    drawing.text({.at = {placed.at.x + swatch_width(*placed.entry) + 5.0, placed.at.y},
                  .text = placed.entry->name});
  }
}

Point PlotFrame::at(double x_value, double y_value) const {
  return {.x = plot.x + plot.width * x.position(x_value),
          .y = plot.bottom() - plot.height * y.position(y_value)};
}

double frame_height(const FrameOptions& options) {
  const double title = options.x.title.empty() ? 0.0 : kXTitleRow;
  return options.top + kYTitleRow + options.plot_height + kTickRow + title + 2.0;
}

PlotFrame draw_frame(Drawing& drawing, const FrameOptions& options) {
  PlotFrame frame;
  frame.y = make_scale(options.y, options.y_range, kMostYTicks);
  const double left = widest_label(frame.y) + 8.0;
  // Half of the last label may stand beyond the axis.
  frame.x = make_scale(options.x, options.x_range,
                       std::max(2, static_cast<int>((options.width - left) / kTickSpace)));
  if (!options.has_x_ticks) frame.x.ticks.clear();
  const double right = std::max(8.0, widest_label(frame.x) / 2.0 + 2.0);
  frame.plot = {.x = left,
                .y = options.top + kYTitleRow,
                .width = options.width - left - right,
                .height = options.plot_height};
  drawing.text({.at = {0.0, options.top + 13.0}, .text = frame.y.title, .classes = "muted"});
  const Box& plot = frame.plot;
  for (const Tick& tick : frame.y.ticks) {
    const double y = plot.bottom() - plot.height * frame.y.position(tick.value);
    drawing.line({plot.x, y}, {plot.right(), y}, "grid");
    drawing.text({.at = {plot.x - 6.0, y + 4.0},
                  .text = tick.label,
                  .anchor = Anchor::kEnd,
                  .classes = "muted"});
  }
  drawing.line({plot.x, plot.bottom()}, {plot.right(), plot.bottom()}, "axis");
  for (const Tick& tick : frame.x.ticks) {
    const double x = plot.x + plot.width * frame.x.position(tick.value);
    if (options.has_vertical_grid) drawing.line({x, plot.y}, {x, plot.bottom()}, "grid");
    drawing.line({x, plot.bottom()}, {x, plot.bottom() + 4.0}, "axis");
    drawing.text({.at = {x, plot.bottom() + kTickRow - 1.0},
                  .text = tick.label,
                  .anchor = Anchor::kMiddle,
                  .classes = "muted"});
  }
  if (!frame.x.title.empty())
    drawing.text({.at = {plot.right(), plot.bottom() + kTickRow + kXTitleRow - 2.0},
                  .text = frame.x.title,
                  .anchor = Anchor::kEnd,
                  .classes = "muted"});
  return frame;
}

void draw_limits(Drawing& drawing, const PlotFrame& frame, const std::vector<Limit>& limits) {
  std::vector<Box> taken;
  for (const Limit& limit : limits) {
    const double y = frame.at(frame.x.first, limit.value).y;
    if (y < frame.plot.y - 1.0 || y > frame.plot.bottom() + 1.0) continue;
    drawing.line({frame.plot.x, y}, {frame.plot.right(), y}, "limit");
    const std::string name = fit_text(limit.name, kFontSize, frame.plot.width - 8.0);
    taken.push_back(place_name(frame, {.x = text_width(name, kFontSize), .y = y}, taken));
    drawing.text({.at = {taken.back().x, taken.back().y + 10.0}, .text = name, .classes = "halo"});
  }
}

}  // namespace sotto::report
