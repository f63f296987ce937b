#include "sotto/lab/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/core/units.h"
#include "sotto/lab/analysis.h"
#include "sotto/lab/comparison_tables.h"
#include "sotto/report/bar_chart.h"
#include "sotto/report/scatter_chart.h"

namespace sotto::lab {

namespace {

using report::Axis;
using report::BarChart;
using report::DataTable;
using report::Figure;
using report::Page;
using report::ScatterChart;
using report::Section;
using report::Unit;

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

double or_nothing(double value) {
  return value > 0.0 ? value : kNothing;
}

double bytes_or_nothing(int64_t bytes) {
  return or_nothing(static_cast<double>(bytes));
}

// Each experiment has the same colour and marker in all charts.
int style_of(size_t position) {
  return static_cast<int>(position % report::kNumStyles);
}

Figure memory_figure(const Comparison& comparison) {
  BarChart chart{.value = {.title = "memory", .unit = Unit::kBytes},
                 .series = {"after forward", "after backward", "peak"}};
  for (const Result& row : comparison.rows) {
    const StepMemory most = row.max_memory();
    chart.rows.push_back(
        {.name = row.name,
         .values = {bytes_or_nothing(most.after_forward), bytes_or_nothing(most.after_backward),
                    bytes_or_nothing(most.peak)}});
  }
  return {.title = "Memory of a step",
          .description = "The most of all steps; a shorter bar is better.",
          .drawing = chart.is_empty() ? report::Drawing{} : draw(chart),
          .name = "memory"};
}

template <class Value>
Figure bar_figure(const Comparison& comparison, Figure figure, const Axis& axis, Value value_of) {
  BarChart chart{.value = axis};
  for (size_t i = 0; i < comparison.rows.size(); ++i)
    chart.rows.push_back({.name = comparison.rows[i].name,
                          .values = {value_of(comparison.rows[i])},
                          .style = style_of(i)});
  if (!chart.is_empty()) figure.drawing = draw(chart);
  return figure;
}

template <class Value>
Figure scatter_figure(const Comparison& comparison, Figure figure, const Axis& axis,
                      Value value_of) {
  ScatterChart chart{.x = {.title = "peak memory", .unit = Unit::kBytes, .has_zero = false},
                     .y = axis};
  for (size_t i = 0; i < comparison.rows.size(); ++i) {
    const Result& row = comparison.rows[i];
    chart.points.push_back({.x = bytes_or_nothing(row.is_done() ? row.peak_bytes() : 0),
                            .y = value_of(row),
                            .name = row.name,
                            .style = style_of(i)});
  }
  if (!chart.is_empty()) figure.drawing = draw(chart);
  return figure;
}

std::vector<Figure> figures_of(const Comparison& comparison) {
  const bool is_text = comparison.rows.front().is_text();
  const Axis quality{.title = is_text ? "validation perplexity" : "word error rate",
                     .unit = is_text ? Unit::kNumber : Unit::kShare,
                     .has_zero = false};
  const Axis speed{.title = is_text ? "tokens per second" : "seconds of audio per second"};
  const auto quality_of = [&](const Result& row) {
    return row.is_done() ? comparison.quality_of(row).value_or(kNothing) : kNothing;
  };
  const auto speed_of = [](const Result& row) { return or_nothing(row.speed); };
  std::vector<Figure> figures = {memory_figure(comparison)};
  figures.push_back(bar_figure(
      comparison, {.title = "Speed", .description = "A longer bar is better.", .name = "speed"},
      speed, speed_of));
  figures.push_back(bar_figure(
      comparison,
      {.title = "Largest batch", .description = "Items in one micro-batch.", .name = "largest"},
      {.title = "items", .unit = Unit::kCount}, [](const Result& row) {
        return row.largest ? or_nothing(static_cast<double>(row.largest->tried)) : kNothing;
      }));
  figures.push_back(scatter_figure(comparison,
                                   {.title = "Speed against memory",
                                    .description = "Better is further up and to the left.",
                                    .name = "speed_against_memory"},
                                   speed, speed_of));
  figures.push_back(scatter_figure(comparison,
                                   {.title = "Quality against memory",
                                    .description = "Better is further down and to the left.",
                                    .name = "quality_against_memory"},
                                   quality, quality_of));
  std::erase_if(figures, [](const Figure& figure) { return figure.drawing.width() <= 0.0; });
  return figures;
}

// The row with the least memory, the fastest, and the largest batch.
void add_key_figures(const Comparison& comparison, Page& page) {
  const Result* least = nullptr;
  const Result* fastest = nullptr;
  for (const Result& row : comparison.rows) {
    if (!row.is_done()) continue;
    // Among rows with equal memory, the fastest is chosen.
    if (least == nullptr || row.peak_bytes() < least->peak_bytes() ||
        (row.peak_bytes() == least->peak_bytes() && row.speed > least->speed))
      least = &row;
    if (fastest == nullptr || row.speed > fastest->speed) fastest = &row;
  }
  page.key_figures.push_back({.name = "experiments",
                              .value = std::to_string(comparison.rows.size()),
                              .detail = set_up_of(comparison).front().second});
  if (least != nullptr)
    page.key_figures.push_back({.name = "least memory",
                                .value = format_bytes(least->peak_bytes()),
                                .detail = least->name,
                                .key = "least_peak"});
  if (fastest != nullptr && fastest->speed > 0.0)
    page.key_figures.push_back(
        {.name = "fastest",
         .value = fmt::format("{} {}", report::format_value(fastest->speed, Unit::kNumber),
                              fastest->is_text() ? "tokens/s" : "audio-s/s"),
         .detail = fastest->name,
         .key = "highest_speed"});
}

DataTable set_up_table(const Comparison& comparison) {
  DataTable table{.name = "set_up",
                  .title = "Set-up",
                  .columns = {{.key = "what", .align = report::Align::kLeft},
                              {.key = "value", .align = report::Align::kLeft}}};
  for (const auto& [name, value] : set_up_of(comparison))
    table.rows.push_back({report::cell_of(name), report::cell_of(value)});
  return table;
}

DataTable experiments_table(const Comparison& comparison) {
  DataTable table{
      .name = "experiments",
      .title = "Experiments",
      .columns = {{.key = "experiment", .align = report::Align::kLeft},
                  {.key = "title", .title = "what it is", .align = report::Align::kLeft}}};
  for (const Result& row : comparison.rows)
    table.rows.push_back({report::cell_of(row.name), report::cell_of(row.title)});
  return table;
}

}  // namespace

Page comparison_page(const Comparison& comparison) {
  Page page{.title = fmt::format("Suite {}", comparison.suite),
            .subtitle = fmt::format("on {}", comparison.dataset),
            .footer = "written by sotto lab"};
  add_key_figures(comparison, page);
  if (comparison.kind != Suite::Kind::kSizes) {
    Section& analysis = page.add_section("Analysis");
    for (const std::string& sentence : analyse(comparison))
      analysis.add(report::Paragraph{sentence});
  }
  Section& charts = page.add_section("Charts");
  for (Figure& figure : figures_of(comparison)) charts.add(std::move(figure));
  Section& tables = page.add_section("Figures");
  for (DataTable& table : tables_of(comparison)) tables.add(std::move(table));
  Section& set_up = page.add_section("Set-up");
  set_up.add(set_up_table(comparison));
  set_up.add(experiments_table(comparison));
  return page;
}

}  // namespace sotto::lab
