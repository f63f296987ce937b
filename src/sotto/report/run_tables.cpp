#include "sotto/report/run_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sotto/core/units.h"

namespace sotto::report {

namespace {

// Longer lists say nothing more; metrics.jsonl has all.
constexpr size_t kMostEvents = 60;

DataTable pairs_table(const std::string& name, const std::string& title) {
  return {.name = name,
          .title = title,
          .columns = {{.key = "name", .title = "", .align = Align::kLeft},
                      {.key = "value", .title = "", .align = Align::kLeft}},
          .rows = {}};
}

void add_pair(DataTable& table, const std::string& name, const std::string& text) {
  if (!text.empty()) table.rows.push_back({cell_of(name), cell_of(text)});
}

std::string progress_text(const RunContent& run) {
  const int64_t total = run.total_steps();
  std::string text = format_count(run.last_step());
  if (total > 0 && total >= run.last_step()) text += " of " + format_count(total);
  return text;
}

std::string share_of_budget(const RunContent& run) {
  if (!run.facts || run.facts->arena_bytes <= 0) return "";
  return fmt::format(
      " ({:.0f} % of the budget of {})",
      100.0 * static_cast<double>(run.peak_bytes()) / static_cast<double>(run.facts->arena_bytes),
      format_bytes(run.facts->arena_bytes));
}

std::string data_text(const RunFacts& facts) {
  const std::string items = format_count(facts.num_items);
  if (facts.is_text)
    return fmt::format("{} rows, {} tokens", items, format_count(facts.num_tokens));
  return fmt::format("{} utterances, {}", items, format_duration(facts.data_seconds));
}

void add_facts(DataTable& table, const RunFacts& facts) {
  add_pair(table, "model",
           facts.num_parameters > 0
               ? fmt::format("{}, {} parameters", facts.model, format_count(facts.num_parameters))
               : facts.model);
  add_pair(table, "training data", fmt::format("{} ({})", facts.train_data, data_text(facts)));
  add_pair(table, "evaluation data", facts.dev_data);
  add_pair(table, "device", facts.device);
}

void add_results(DataTable& table, const RunContent& run) {
  if (!run.steps.empty()) {
    add_pair(
        table, "training loss",
        fmt::format("{} at first, {} at last", format_value(run.steps.front().loss, Unit::kNumber),
                    format_value(run.steps.back().loss, Unit::kNumber)));
    add_pair(table, "peak memory", format_bytes(run.peak_bytes()) + share_of_budget(run));
    add_pair(table, "speed", speed_text(run));
    add_pair(table, "time per step", format_duration(run.median_step_seconds()) + " (median)");
    std::string time = format_duration(run.training_seconds());
    if (run.evaluation_seconds() > 0.0)
      time +=
          fmt::format(" of training, {} of evaluation", format_duration(run.evaluation_seconds()));
    add_pair(table, "time", time);
  }
  if (const RunEvaluation* best = run.best_evaluation())
    add_pair(table, "best " + metric_of(run),
             fmt::format("{} at step {}", quality_text(run, *best->quality()),
                         format_count(best->step)));
}

std::string checkpoints_text(const RunContent& run) {
  std::string text;
  for (const int64_t step : run.checkpoints)
    text += fmt::format("{}step {}", text.empty() ? "" : ", ", step);
  if (run.has_best_checkpoint) text += text.empty() ? "the best" : " and the best";
  return text;
}

double difference_of(const PlannedBytes& bytes) {
  return static_cast<double>(bytes.measured - bytes.planned);
}

std::string difference_text(double bytes) {
  if (bytes == 0.0) return "equal";
  return fmt::format("{}{}", bytes < 0.0 ? "-" : "+", format_value(std::abs(bytes), Unit::kBytes));
}

void add_bytes(DataTable& table, const PlannedBytes& bytes) {
  if (bytes.planned == 0 && bytes.measured == 0) return;
  table.rows.push_back(
      {cell_of(bytes.category),
       cell_of(static_cast<double>(bytes.planned), Unit::kBytes),
       cell_of(static_cast<double>(bytes.measured), Unit::kBytes),
       {.text = difference_text(difference_of(bytes)), .value = bytes.measured - bytes.planned}});
}

// Returns the best metric of evaluations after the steps from `begin` to before `end`; NaN where
// there is none.
double best_between(const RunContent& run, int64_t begin, int64_t end) {
  double best = std::nan("");
  for (const RunEvaluation& evaluation : run.evaluations)
    if (evaluation.step >= begin && evaluation.step < end)
      best = std::fmin(best, evaluation.quality().value_or(std::nan("")));
  return best;
}

}  // namespace

Unit quality_unit(const RunContent& run) {
  return run.is_text() ? Unit::kNumber : Unit::kShare;
}

std::string quality_text(const RunContent& run, double quality) {
  return format_value(quality, quality_unit(run));
}

std::string speed_text(const RunContent& run) {
  if (run.speed() <= 0.0) return "";
  if (run.is_text()) return fmt::format("{} tokens/s", format_value(run.speed(), Unit::kNumber));
  return fmt::format("{}x real time", format_digits(run.speed()));
}

DataTable summary_table(const RunContent& run) {
  DataTable table = pairs_table("summary", "Summary");
  add_pair(table, "folder", run.folder.string());
  add_pair(table, "state",
           run.error.empty() ? name_of(run.state)
                             : fmt::format("{}: {}", name_of(run.state), run.error));
  add_pair(table, "steps", progress_text(run));
  if (run.facts) add_facts(table, *run.facts);
  add_pair(table, "numerics", run.setting("numerics"));
  add_results(table, run);
  add_pair(table, "checkpoints", checkpoints_text(run));
  add_pair(table, "learned limit per micro-batch", run.learned_limits);
  return table;
}

DataTable memory_table(const RunContent& run) {
  DataTable table{.name = "memory",
                  .title = "Memory of the first step",
                  .columns = {{.key = "category", .title = "at the peak", .align = Align::kLeft},
                              {.key = "planned_bytes", .title = "planned"},
                              {.key = "measured_bytes", .title = "measured"},
                              {.key = "difference_bytes", .title = "difference"}},
                  .rows = {}};
  if (!run.memory) return table;
  const StepMemory& memory = *run.memory;
  if (memory.step > 1) table.title = fmt::format("Memory of step {}", memory.step);
  for (const PlannedBytes& bytes : memory.at_peak) add_bytes(table, bytes);
  add_bytes(table, {"peak", memory.planned_peak, memory.measured_peak});
  add_bytes(table,
            {"peak with fragmentation", memory.planned_high_water, memory.measured_high_water});
  add_bytes(table, {"host memory", memory.planned_host_peak, memory.measured_host_peak});
  if (!memory.peak_moment.empty()) table.note = "The peak is during: " + memory.peak_moment + ".";
  return table;
}

DataTable time_table(const RunContent& run) {
  DataTable table{.name = "step_time",
                  .title = "Where the time of a step goes",
                  .columns = {{.key = "part", .align = Align::kLeft},
                              {.key = "seconds", .title = "time"},
                              {.key = "share"}},
                  .rows = {}};
  if (!run.facts || run.facts->step_parts.empty()) return table;
  double total = 0.0;
  for (const NamedSeconds& part : run.facts->step_parts) total += part.seconds;
  for (const NamedSeconds& part : run.facts->step_parts) {
    if (part.seconds <= 0.0) continue;
    table.rows.push_back({cell_of(part.name), cell_of(part.seconds, Unit::kSeconds),
                          cell_of(part.seconds / total, Unit::kShare)});
  }
  table.note = fmt::format("Predicted by the planner for a step of median length: {}.",
                           format_duration(run.facts->step_seconds));
  if (run.median_step_seconds() > 0.0)
    table.note += fmt::format(" Measured, median of all steps: {}.",
                              format_duration(run.median_step_seconds()));
  return table;
}

DataTable padding_table(const RunContent& run) {
  DataTable table{.name = "padding",
                  .title = "What padded batches would have wasted",
                  .columns = {{.key = "batches", .align = Align::kLeft},
                              {.key = "padding_share", .title = "of their compute"}},
                  .rows = {}};
  if (!run.facts || run.facts->padding_batch <= 0) return table;
  table.rows = {{cell_of("in random order"), cell_of(run.facts->shuffled_padding, Unit::kShare)},
                {cell_of("sorted by length"), cell_of(run.facts->sorted_padding, Unit::kShare)},
                {cell_of("this run"), cell_of(0.0, Unit::kShare)}};
  table.note = fmt::format(
      "With {} utterances of this data per batch, each as long as the longest of them. This run "
      "concatenates utterances and pads nothing.",
      run.facts->padding_batch);
  return table;
}

DataTable evaluation_table(const RunContent& run) {
  DataTable table{.name = "evaluations",
                  .title = "Evaluations",
                  .columns = {{.key = "step"}, {.key = "loss"}},
                  .rows = {}};
  const bool is_text = run.is_text();
  if (is_text) {
    table.columns.push_back({.key = "perplexity"});
  } else {
    table.columns.push_back({.key = "wer", .title = "WER"});
    table.columns.push_back({.key = "cer", .title = "CER"});
  }
  table.columns.push_back({.key = "seconds", .title = "time"});
  for (const RunEvaluation& evaluation : run.evaluations) {
    std::vector<DataCell> row = {cell_of(static_cast<double>(evaluation.step), Unit::kCount),
                                 cell_of(evaluation.loss, Unit::kNumber)};
    if (is_text) {
      row.push_back(cell_of(evaluation.perplexity.value_or(std::nan("")), Unit::kNumber));
    } else {
      row.push_back(cell_of(evaluation.wer.value_or(std::nan("")), Unit::kShare));
      row.push_back(cell_of(evaluation.cer.value_or(std::nan("")), Unit::kShare));
    }
    row.push_back(cell_of(evaluation.seconds, Unit::kSeconds));
    table.rows.push_back(std::move(row));
  }
  return table;
}

DataTable stage_table(const RunContent& run) {
  const std::string metric = metric_of(run);
  DataTable table{.name = "stages",
                  .title = "Stages",
                  .columns = {{.key = "stage"},
                              {.key = "name", .title = "samples", .align = Align::kLeft},
                              {.key = "samples", .title = run.is_text() ? "rows" : "utterances"},
                              {.key = "first_step", .title = "first step"},
                              {.key = "steps", .title = "steps so far"},
                              {.key = "planned_steps", .title = "planned"},
                              {.key = "weights_of_step", .title = "weights of step"},
                              {.key = "best", .title = "best " + metric}},
                  .rows = {}};
  const auto count = [](int64_t value) {
    return cell_of(static_cast<double>(value), Unit::kCount);
  };
  for (size_t i = 0; i < run.stages.size(); ++i) {
    const RunStage& stage = run.stages[i];
    const int64_t end = i + 1 < run.stages.size() ? run.stages[i + 1].step : run.last_step() + 1;
    table.rows.push_back({count(stage.stage + 1), cell_of(stage.name), count(stage.num_samples),
                          count(stage.step), count(std::max<int64_t>(0, end - stage.step)),
                          count(stage.num_steps),
                          stage.weights_of_step > 0 ? count(stage.weights_of_step) : cell_of(""),
                          cell_of(best_between(run, stage.step, end), quality_unit(run))});
  }
  return table;
}

DataTable event_table(const RunContent& run) {
  DataTable table{.name = "events",
                  .title = "Events",
                  .columns = {{.key = "step"},
                              {.key = "event", .align = Align::kLeft},
                              {.key = "description", .align = Align::kLeft}},
                  .rows = {}};
  for (const RunEvent& event : run.events) {
    if (table.rows.size() == kMostEvents) {
      table.note =
          fmt::format("The first {} of {}; metrics.jsonl has all.", kMostEvents, run.events.size());
      break;
    }
    table.rows.push_back({cell_of(static_cast<double>(event.step), Unit::kCount),
                          cell_of(name_of(event.kind)), cell_of(event.text)});
  }
  return table;
}

DataTable decision_table(const RunContent& run) {
  DataTable table{.name = "decisions",
                  .title = "Decisions of the planner",
                  .columns = {{.key = "setting", .align = Align::kLeft},
                              {.key = "value", .align = Align::kLeft},
                              {.key = "reason", .align = Align::kLeft}},
                  .rows = {}};
  if (!run.facts) return table;
  for (const SettingReason& reason : run.facts->reasons)
    table.rows.push_back({cell_of(reason.setting), cell_of(reason.value), cell_of(reason.reason)});
  return table;
}

DataTable setting_table(const RunContent& run) {
  DataTable table = pairs_table("configuration", "Configuration");
  table.columns = {{.key = "setting", .align = Align::kLeft},
                   {.key = "value", .align = Align::kLeft}};
  for (const NamedText& setting : run.settings)
    table.rows.push_back({cell_of(setting.name), cell_of(setting.text)});
  return table;
}

DataTable environment_table(const RunContent& run) {
  DataTable table = pairs_table("environment", "Environment");
  if (!run.facts) return table;
  for (const NamedText& entry : run.facts->environment) add_pair(table, entry.name, entry.text);
  return table;
}

std::vector<DataTable> tables_of(const RunContent& run, bool has_settings) {
  std::vector<DataTable> tables = {summary_table(run), stage_table(run),   evaluation_table(run),
                                   memory_table(run),  time_table(run),    padding_table(run),
                                   event_table(run),   decision_table(run)};
  if (has_settings) tables.push_back(setting_table(run));
  tables.push_back(environment_table(run));
  std::erase_if(tables, [](const DataTable& table) { return table.is_empty(); });
  return tables;
}

}  // namespace sotto::report
