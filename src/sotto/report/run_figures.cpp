#include "sotto/report/run_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sotto/core/units.h"
#include "sotto/report/bar_chart.h"
#include "sotto/report/line_chart.h"
#include "sotto/report/run_tables.h"
#include "sotto/report/timeline_chart.h"

namespace sotto::report {

namespace {

constexpr Unit kSteps = Unit::kCount;
// Losses that fall further than this factor are drawn on a logarithmic axis.
constexpr double kWideRange = 30.0;
// An average is drawn over this share of the steps.
constexpr size_t kStepsPerAverage = 25;

Axis step_axis() {
  return {.title = "step", .unit = kSteps, .has_zero = false, .ends_at_tick = false};
}

std::vector<double> values_of(const RunContent& run, auto value_of) {
  std::vector<double> values;
  for (const RunStep& step : run.steps) values.push_back(static_cast<double>(value_of(step)));
  return values;
}

std::vector<double> steps_of(const RunContent& run) {
  return values_of(run, [](const RunStep& step) { return step.step; });
}

std::vector<Marks> marks_of(const RunContent& run) {
  std::vector<Marks> all;
  for (const auto& [kind, name] : {std::pair{RunEvent::Kind::kResume, "resume"},
                                   std::pair{RunEvent::Kind::kOutOfMemory, "out of memory"}}) {
    Marks marks{.name = name, .x = {}};
    for (const RunEvent& event : run.events)
      if (event.kind == kind) marks.x.push_back(static_cast<double>(event.step));
    if (!marks.x.empty()) all.push_back(std::move(marks));
  }
  Marks stages{.name = "stage", .x = {}};
  for (const RunStage& stage : run.stages)
    if (stage.stage > 0) stages.x.push_back(static_cast<double>(stage.step));
  if (!stages.x.empty()) all.push_back(std::move(stages));
  return all;
}

// One value per step: as it is where there are few, else pale behind its average.
std::vector<Series> with_average(const std::string& name, const std::vector<double>& x,
                                 const std::vector<double>& y) {
  const size_t count = y.size() / kStepsPerAverage;
  if (count < 2) return {{.name = name, .x = x, .y = y, .style = 0}};
  return {{.name = "each step", .x = x, .y = y, .is_faint = true, .style = 0},
          {.name = fmt::format("{}, average of {} steps", name, count),
           .x = x,
           .y = moving_average(y, count),
           .style = 0}};
}

bool is_wide_range(const std::vector<double>& values) {
  const ValueRange range = range_of(values);
  return range.least > 0.0 && range.most / range.least > kWideRange;
}

Figure figure_of(const LineChart& chart, Figure figure) {
  if (!chart.is_empty()) figure.drawing = draw(chart);
  return figure;
}

Figure figure_of(const BarChart& chart, Figure figure) {
  if (!chart.is_empty()) figure.drawing = draw(chart);
  return figure;
}

std::string band_of(const StepMoment& moment, bool is_single) {
  if (is_single || moment.micro_batch < 0) return moment.phase;
  return fmt::format("micro-batch {}", moment.micro_batch);
}

TimelineChart timeline_of(const StepMemory& memory) {
  int64_t last_micro_batch = 0;
  for (const StepMoment& moment : memory.timeline)
    last_micro_batch = std::max(last_micro_batch, moment.micro_batch);
  const bool has_categories = std::ranges::all_of(
      memory.timeline, [](const StepMoment& moment) { return !moment.by_category.empty(); });
  TimelineChart chart{.y = {.title = "memory", .unit = Unit::kBytes}, .series = {"memory"}};
  if (has_categories) chart.series = memory.categories;
  for (const StepMoment& moment : memory.timeline) {
    TimelineMoment column{.values = {}, .band = band_of(moment, last_micro_batch == 0)};
    if (has_categories) {
      for (const int64_t bytes : moment.by_category)
        column.values.push_back(static_cast<double>(bytes));
    } else {
      column.values.push_back(static_cast<double>(moment.bytes));
    }
    chart.moments.push_back(std::move(column));
  }
  chart.peak = "peak " + format_bytes(memory.planned_peak);
  return chart;
}

}  // namespace

Figure loss_figure(const RunContent& run) {
  const std::vector<double> losses = values_of(run, [](const RunStep& step) { return step.loss; });
  LineChart chart{.x = step_axis(),
                  .y = {.title = "loss", .is_log = is_wide_range(losses), .has_zero = false},
                  .series = with_average("training", steps_of(run), losses),
                  .marks = marks_of(run)};
  Series evaluation{.name = "evaluation", .x = {}, .y = {}, .has_markers = true, .style = 1};
  for (const RunEvaluation& point : run.evaluations) {
    evaluation.x.push_back(static_cast<double>(point.step));
    evaluation.y.push_back(point.loss);
  }
  if (!evaluation.x.empty()) chart.series.push_back(std::move(evaluation));
  return figure_of(chart, {.title = "Loss", .description = "Lower is better.", .name = "loss"});
}

Figure quality_figure(const RunContent& run) {
  const std::string metric = metric_of(run);
  LineChart chart{.x = step_axis(),
                  .y = {.title = metric, .unit = quality_unit(run), .has_zero = !run.is_text()},
                  .marks = marks_of(run)};
  Series quality{.name = metric, .x = {}, .y = {}, .has_markers = true};
  Series letters{.name = "CER", .x = {}, .y = {}, .has_markers = true};
  for (const RunEvaluation& point : run.evaluations) {
    quality.x.push_back(static_cast<double>(point.step));
    quality.y.push_back(point.quality().value_or(std::nan("")));
    letters.x.push_back(static_cast<double>(point.step));
    letters.y.push_back(point.cer.value_or(std::nan("")));
  }
  chart.y.is_log = is_wide_range(quality.y);
  chart.series.push_back(std::move(quality));
  if (!run.is_text()) chart.series.push_back(std::move(letters));
  std::string description = "On the evaluation data; lower is better.";
  if (const RunEvaluation* best = run.best_evaluation())
    description += fmt::format(" Best: {} at step {}.", quality_text(run, *best->quality()),
                               format_count(best->step));
  return figure_of(chart, {.title = run.is_text() ? "Perplexity" : "Error rates",
                           .description = description,
                           .name = "quality"});
}

Figure rate_figure(const RunContent& run) {
  LineChart chart{.x = step_axis(),
                  .y = {.title = "learning rate"},
                  .series = {{.name = "learning rate",
                              .x = steps_of(run),
                              .y = values_of(run, [](const RunStep& step) { return step.rate; })}}};
  return figure_of(chart, {.title = "Learning rate",
                           .description = "As the schedule sets it.",
                           .name = "learning_rate"});
}

Figure gradient_figure(const RunContent& run) {
  const std::vector<double> norms =
      values_of(run, [](const RunStep& step) { return step.gradient_norm; });
  LineChart chart{.x = step_axis(),
                  .y = {.title = "norm", .is_log = is_wide_range(norms)},
                  .series = with_average("norm", steps_of(run), norms),
                  .marks = marks_of(run)};
  std::string description = "Before clipping.";
  if (const int64_t count = run.count(RunEvent::Kind::kOverflow); count > 0)
    description += fmt::format(" In {} {} it was not finite.", format_count(count),
                               count == 1 ? "step" : "steps");
  return figure_of(chart,
                   {.title = "Gradient norm", .description = description, .name = "gradient_norm"});
}

Figure memory_figure(const RunContent& run) {
  LineChart chart{
      .x = step_axis(),
      .y = {.title = "memory", .unit = Unit::kBytes},
      .series = {{.name = "peak of the step",
                  .x = steps_of(run),
                  .y = values_of(run, [](const RunStep& step) { return step.peak_bytes; })},
                 {.name = "with fragmentation",
                  .x = steps_of(run),
                  .y = values_of(run, [](const RunStep& step) { return step.reserved_bytes; })}},
      .marks = marks_of(run)};
  std::string description = "Peak of every step.";
  if (run.facts && run.facts->arena_bytes > 0) {
    chart.limits.push_back({.name = "budget " + format_bytes(run.facts->arena_bytes),
                            .value = static_cast<double>(run.facts->arena_bytes)});
    if (run.facts->needed_bytes > 0)
      description += fmt::format(" The largest step was planned with {}.",
                                 format_bytes(run.facts->needed_bytes));
    if (run.facts->library_bytes > 0)
      description += fmt::format(" Libraries on the device take {} more.",
                                 format_bytes(run.facts->library_bytes));
  }
  return figure_of(
      chart, {.title = "Memory against the budget", .description = description, .name = "memory"});
}

Figure category_figure(const RunContent& run) {
  Figure figure{.title = "Planned and measured memory",
                .description = "Bytes at the peak of the first step.",
                .name = "planned_and_measured"};
  if (!run.memory) return figure;
  if (run.memory->step > 1)
    figure.description = fmt::format("Bytes at the peak of step {}.", run.memory->step);
  BarChart chart{.value = {.title = "memory", .unit = Unit::kBytes},
                 .series = {"planned", "measured"},
                 .rows = {}};
  bool is_equal = true;
  for (const PlannedBytes& bytes : run.memory->at_peak) {
    is_equal = is_equal && bytes.planned == bytes.measured;
    if (bytes.planned > 0 || bytes.measured > 0)
      chart.rows.push_back(
          {.name = bytes.category,
           .values = {static_cast<double>(bytes.planned), static_cast<double>(bytes.measured)}});
  }
  if (is_equal) figure.description += " Every category was predicted to the byte.";
  return figure_of(chart, figure);
}

Figure step_timeline_figure(const StepMemory& memory) {
  Figure figure{.title = "Memory over one step",
                .description = "From the first forward to the update, moment by moment.",
                .is_wide = true,
                .name = "timeline"};
  if (memory.timeline.empty()) return figure;
  if (!memory.peak_moment.empty())
    figure.description += fmt::format(" The peak is during: {}.", memory.peak_moment);
  TimelineChart chart = timeline_of(memory);
  figure.drawing = draw(chart);
  chart.width = kChartWidth;
  chart.plot_height = kPlotHeight;
  figure.narrow = draw(chart);
  return figure;
}

Figure timeline_figure(const RunContent& run) {
  return step_timeline_figure(run.memory.value_or(StepMemory{}));
}

Figure step_time_figure(const RunContent& run) {
  const DataTable table = time_table(run);
  BarChart chart{.value = {.title = "time", .unit = Unit::kSeconds}, .rows = {}};
  if (run.facts) {
    for (const NamedSeconds& part : run.facts->step_parts)
      if (part.seconds > 0.0) chart.rows.push_back({.name = part.name, .values = {part.seconds}});
  }
  return figure_of(chart, {.title = table.title, .description = table.note, .name = "step_time"});
}

Figure throughput_figure(const RunContent& run) {
  const bool is_text = run.is_text();
  const std::vector<double> speeds = values_of(run, [&](const RunStep& step) {
    const double amount = is_text ? static_cast<double>(step.num_frames) : step.audio_seconds;
    return step.seconds > 0.0 && step.num_items > 0 ? amount / step.seconds : std::nan("");
  });
  LineChart chart{.x = step_axis(),
                  .y = {.title = is_text ? "tokens per second" : "seconds of audio per second"},
                  .series = with_average("speed", steps_of(run), speeds),
                  .marks = marks_of(run)};
  return figure_of(chart, {.title = "Throughput",
                           .description = fmt::format("{} over the whole run.", speed_text(run)),
                           .name = "throughput"});
}

Figure run_time_figure(const RunContent& run) {
  BarChart chart{.value = {.title = "time", .unit = Unit::kSeconds}, .rows = {}};
  if (run.training_seconds() > 0.0)
    chart.rows = {{.name = "training", .values = {run.training_seconds()}},
                  {.name = "evaluation", .values = {run.evaluation_seconds()}}};
  return figure_of(chart, {.title = "Where the time of the run went",
                           .description = "Without reading data and writing checkpoints.",
                           .name = "run_time"});
}

Figure padding_figure(const RunContent& run) {
  const DataTable table = padding_table(run);
  BarChart chart{.value = {.title = "padding", .unit = Unit::kShare}, .rows = {}};
  for (const std::vector<DataCell>& row : table.rows)
    chart.rows.push_back({.name = row[0].text, .values = {row[1].value.get<double>()}});
  return figure_of(chart, {.title = table.title, .description = table.note, .name = "padding"});
}

std::vector<Figure> figures_of(const RunContent& run) {
  std::vector<Figure> figures = {
      loss_figure(run),     quality_figure(run),   rate_figure(run),     gradient_figure(run),
      memory_figure(run),   category_figure(run),  timeline_figure(run), throughput_figure(run),
      run_time_figure(run), step_time_figure(run), padding_figure(run)};
  std::erase_if(figures, is_empty);
  return figures;
}

}  // namespace sotto::report
