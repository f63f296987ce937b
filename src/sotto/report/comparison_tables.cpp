// Tables of several runs side by side.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "sotto/core/units.h"
#include "sotto/report/run_tables.h"

namespace sotto::report {

namespace {

// A column of the comparison: how it is named and what it shows of a run.
struct RunColumn {
  DataColumn column;
  std::function<DataCell(const RunContent&)> cell;
};

DataCell count_cell(int64_t count) {
  return count > 0 ? cell_of(static_cast<double>(count), Unit::kCount) : DataCell{.text = "-"};
}

DataCell bytes_cell(int64_t bytes) {
  return bytes > 0 ? cell_of(static_cast<double>(bytes), Unit::kBytes) : DataCell{.text = "-"};
}

DataCell seconds_cell(double seconds) {
  return seconds > 0.0 ? cell_of(seconds, Unit::kSeconds) : DataCell{.text = "-"};
}

DataCell quality_cell(const RunContent& run) {
  const RunEvaluation* const best = run.best_evaluation();
  if (best == nullptr) return {.text = "-"};
  return {.text = quality_text(run, *best->quality()), .value = *best->quality()};
}

DataCell speed_cell(const RunContent& run) {
  if (run.speed() <= 0.0) return {.text = "-"};
  return {.text = speed_text(run), .value = run.speed()};
}

DataCell loss_cell(const RunContent& run) {
  return cell_of(run.steps.empty() ? std::nan("") : run.steps.back().loss, Unit::kNumber);
}

std::vector<RunColumn> columns_for(std::span<const RunContent> runs) {
  std::vector<RunColumn> columns = {
      {{.key = "state", .align = Align::kLeft},
       [](const RunContent& run) { return cell_of(name_of(run.state)); }},
      {{.key = "model", .align = Align::kLeft},
       [](const RunContent& run) {
         return cell_of(run.facts ? run.facts->model : run.setting("model.preset"));
       }},
      {{.key = "parameters"},
       [](const RunContent& run) { return count_cell(run.facts ? run.facts->num_parameters : 0); }},
      {{.key = "numerics", .align = Align::kLeft},
       [](const RunContent& run) { return cell_of(run.setting("numerics")); }},
      {{.key = "budget_bytes", .title = "budget"},
       [](const RunContent& run) { return bytes_cell(run.facts ? run.facts->budget_bytes : 0); }},
      {{.key = "peak_bytes", .title = "peak memory"},
       [](const RunContent& run) { return bytes_cell(run.peak_bytes()); }},
      {{.key = "steps"}, [](const RunContent& run) { return count_cell(run.last_step()); }},
      {{.key = "training_loss", .title = "training loss"}, loss_cell}};
  const auto add_quality = [&](bool is_text, const DataColumn& column) {
    const bool has = std::ranges::any_of(runs, [&](const RunContent& run) {
      return run.is_text() == is_text && run.best_evaluation() != nullptr;
    });
    if (has)
      columns.push_back({column, [is_text](const RunContent& run) {
                           return run.is_text() == is_text ? quality_cell(run)
                                                           : DataCell{.text = "-"};
                         }});
  };
  add_quality(false, {.key = "best_wer", .title = "best WER"});
  add_quality(true, {.key = "best_perplexity", .title = "best perplexity"});
  columns.push_back({{.key = "speed"}, speed_cell});
  columns.push_back(
      {{.key = "seconds_per_step", .title = "time per step"},
       [](const RunContent& run) { return seconds_cell(run.median_step_seconds()); }});
  columns.push_back({{.key = "training_seconds", .title = "training time"},
                     [](const RunContent& run) { return seconds_cell(run.training_seconds()); }});
  columns.push_back({{.key = "recoveries"}, [](const RunContent& run) {
                       return cell_of(static_cast<double>(run.count(RunEvent::Kind::kOutOfMemory)),
                                      Unit::kCount);
                     }});
  return columns;
}

// Settings that name a run or a machine, not what is compared.
bool is_compared(const std::string& setting) {
  return setting != "name" && setting != "format_version";
}

}  // namespace

std::vector<std::string> distinct_names(std::span<const RunContent> runs) {
  std::map<std::string, int> count;
  for (const RunContent& run : runs) ++count[run.name];
  std::vector<std::string> names;
  for (const RunContent& run : runs)
    names.push_back(count[run.name] > 1 ? run.folder.string() : run.name);
  return names;
}

DataTable comparison_table(std::span<const RunContent> runs) {
  const std::vector<RunColumn> columns = columns_for(runs);
  DataTable table{.name = "runs",
                  .title = "Runs",
                  .columns = {{.key = "run", .align = Align::kLeft}},
                  .rows = {}};
  for (const RunColumn& column : columns) table.columns.push_back(column.column);
  const std::vector<std::string> names = distinct_names(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<DataCell> row = {cell_of(names[i])};
    for (const RunColumn& column : columns) row.push_back(column.cell(runs[i]));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<DataTable> comparison_tables(std::span<const RunContent> runs) {
  constexpr std::array<std::string_view, 10> kResults = {
      "run",        "state", "best_wer",         "best_perplexity",  "training_loss",
      "peak_bytes", "speed", "seconds_per_step", "training_seconds", "recoveries"};
  constexpr std::array<std::string_view, 6> kRuns = {"run",      "model",        "parameters",
                                                     "numerics", "budget_bytes", "steps"};
  const DataTable whole = comparison_table(runs);
  DataTable results = select_columns(whole, kResults);
  results.name = "results";
  results.title = "Results";
  std::vector<DataTable> tables = {std::move(results), select_columns(whole, kRuns)};
  if (DataTable differences = difference_table(runs); !differences.is_empty())
    tables.push_back(std::move(differences));
  return tables;
}

DataTable difference_table(std::span<const RunContent> runs) {
  DataTable table{.name = "differences",
                  .title = "Settings that differ",
                  .columns = {{.key = "setting", .align = Align::kLeft}},
                  .rows = {}};
  for (const std::string& name : distinct_names(runs))
    table.columns.push_back({.key = name, .align = Align::kLeft});
  std::vector<std::string> keys;
  for (const RunContent& run : runs) {
    for (const NamedText& setting : run.settings)
      if (std::ranges::find(keys, setting.name) == keys.end()) keys.push_back(setting.name);
  }
  for (const std::string& key : keys) {
    if (!is_compared(key)) continue;
    std::vector<DataCell> row = {cell_of(key)};
    bool differs = false;
    for (const RunContent& run : runs) {
      const std::string value = run.setting(key);
      differs = differs || value != runs.front().setting(key);
      row.push_back(value.empty() ? DataCell{.text = "-"} : cell_of(value));
    }
    if (differs) table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace sotto::report
