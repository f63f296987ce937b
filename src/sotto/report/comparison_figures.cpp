// Charts of several runs side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sotto/report/bar_chart.h"
#include "sotto/report/line_chart.h"
#include "sotto/report/run_figures.h"
#include "sotto/report/run_tables.h"
#include "sotto/report/scatter_chart.h"

namespace sotto::report {

namespace {

// More curves in one chart could not be told apart.
constexpr size_t kMostCurves = kNumStyles;

// Runs that can be compared by one metric, and where they stand among all.
struct Comparable {
  std::span<const RunContent> runs;
  std::vector<std::string> names;
  // Of the first run; the other runs count only where theirs is the same.
  bool is_text = false;
  std::string metric;
};

double quality_of(const Comparable& all, const RunContent& run) {
  const RunEvaluation* const best = run.best_evaluation();
  return best != nullptr && run.is_text() == all.is_text ? *best->quality() : std::nan("");
}

double speed_of(const Comparable& all, const RunContent& run) {
  return run.speed() > 0.0 && run.is_text() == all.is_text ? run.speed() : std::nan("");
}

double peak_of(const RunContent& run) {
  return run.peak_bytes() > 0 ? static_cast<double>(run.peak_bytes()) : std::nan("");
}

Unit unit_of_quality(const Comparable& all) {
  return all.is_text ? Unit::kNumber : Unit::kShare;
}

std::string speed_title(const Comparable& all) {
  return all.is_text ? "tokens per second" : "seconds of audio per second";
}

void add_bars(std::vector<Figure>& figures, const Comparable& all, Figure figure, const Axis& axis,
              auto value_of) {
  BarChart chart{.value = axis, .rows = {}};
  for (size_t i = 0; i < all.runs.size(); ++i)
    chart.rows.push_back({.name = all.names[i],
                          .values = {value_of(all.runs[i])},
                          .style = static_cast<int>(i % kNumStyles)});
  if (chart.is_empty()) return;
  figure.drawing = draw(chart);
  figures.push_back(std::move(figure));
}

void add_scatter(std::vector<Figure>& figures, const Comparable& all, Figure figure,
                 const Axis& axis, auto value_of) {
  ScatterChart chart{.x = {.title = "peak memory", .unit = Unit::kBytes, .has_zero = false},
                     .y = axis};
  for (size_t i = 0; i < all.runs.size(); ++i)
    chart.points.push_back({.x = peak_of(all.runs[i]),
                            .y = value_of(all.runs[i]),
                            .name = all.names[i],
                            .style = static_cast<int>(i % kNumStyles)});
  if (chart.is_empty()) return;
  figure.drawing = draw(chart);
  figures.push_back(std::move(figure));
}

void add_curves(std::vector<Figure>& figures, const Comparable& all) {
  LineChart losses{
      .x = {.title = "step", .unit = Unit::kCount, .has_zero = false, .ends_at_tick = false},
      .y = {.title = "loss", .has_zero = false}};
  LineChart qualities = losses;
  qualities.y = {.title = all.metric, .unit = unit_of_quality(all), .has_zero = !all.is_text};
  for (size_t i = 0; i < std::min(all.runs.size(), kMostCurves); ++i) {
    Series loss{.name = all.names[i], .x = {}, .y = {}},
        quality{.name = all.names[i], .x = {}, .y = {}};
    for (const RunStep& step : all.runs[i].steps) {
      loss.x.push_back(static_cast<double>(step.step));
      loss.y.push_back(step.loss);
    }
    loss.y = moving_average(loss.y, std::max<size_t>(1, loss.y.size() / 25));
    for (const RunEvaluation& point : all.runs[i].evaluations) {
      quality.x.push_back(static_cast<double>(point.step));
      quality.y.push_back(all.runs[i].is_text() == all.is_text
                              ? point.quality().value_or(std::nan(""))
                              : std::nan(""));
    }
    losses.series.push_back(std::move(loss));
    qualities.series.push_back(std::move(quality));
  }
  const std::string which = all.runs.size() > kMostCurves
                                ? fmt::format(" The first {} runs.", kMostCurves)
                                : std::string();
  if (!losses.is_empty())
    figures.push_back({.title = "Training loss",
                       .description = "Average over neighbouring steps; lower is better." + which,
                       .drawing = draw(losses),
                       .name = "loss"});
  if (!qualities.is_empty())
    figures.push_back({.title = all.is_text ? "Perplexity" : "Word error rate",
                       .description = "On the evaluation data; lower is better." + which,
                       .drawing = draw(qualities),
                       .name = "quality"});
}

}  // namespace

std::vector<Figure> comparison_figures(std::span<const RunContent> runs) {
  const Comparable all{.runs = runs,
                       .names = distinct_names(runs),
                       .is_text = runs.front().is_text(),
                       .metric = metric_of(runs.front())};
  const auto quality = [&](const RunContent& run) { return quality_of(all, run); };
  const auto speed = [&](const RunContent& run) { return speed_of(all, run); };
  const Axis quality_axis{
      .title = "best " + all.metric, .unit = unit_of_quality(all), .has_zero = false};
  std::vector<Figure> figures;
  add_bars(
      figures, all,
      {.title = "Best " + all.metric, .description = "Lower is better.", .name = "best_quality"},
      {.title = "best " + all.metric, .unit = unit_of_quality(all)}, quality);
  add_bars(figures, all,
           {.title = "Peak memory", .description = "Of the largest step.", .name = "peak_memory"},
           {.title = "memory", .unit = Unit::kBytes}, peak_of);
  add_bars(figures, all, {.title = "Speed", .description = "Higher is better.", .name = "speed"},
           {.title = speed_title(all)}, speed);
  add_bars(
      figures, all,
      {.title = "Time per step", .description = "Median; lower is better.", .name = "step_seconds"},
      {.title = "time", .unit = Unit::kSeconds}, [](const RunContent& run) {
        return run.median_step_seconds() > 0.0 ? run.median_step_seconds() : std::nan("");
      });
  add_scatter(figures, all,
              {.title = "Quality against memory",
               .description = "Better runs are further down and to the left.",
               .name = "quality_against_memory"},
              quality_axis, quality);
  add_scatter(figures, all,
              {.title = "Speed against memory",
               .description = "Better runs are further up and to the left.",
               .name = "speed_against_memory"},
              {.title = speed_title(all)}, speed);
  add_curves(figures, all);
  return figures;
}

}  // namespace sotto::report
