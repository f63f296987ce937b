#include "sotto/lab/comparison_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/core/units.h"
#include "sotto/lab/analysis.h"
#include "sotto/lab/size_tables.h"
#include "sotto/lab/table_cells.h"

namespace sotto::lab {

namespace {

using report::Align;
using report::DataCell;
using report::DataTable;

DataCell quality_cell(const Result& result, double value) {
  return {.text = quality_text(result, value), .value = value};
}

// "7.10 %", or with seeds "7.10 % (6.80 % to 7.40 %)".
DataCell spread_cell(const Comparison& comparison, const Result& result) {
  const auto found = comparison.quality.find(result.name);
  if (found == comparison.quality.end()) return {.text = "-"};
  const Spread& spread = found->second;
  DataCell cell = quality_cell(result, spread.mean);
  if (spread.num_seeds > 1)
    cell.text += fmt::format(" ({} to {})", quality_cell(result, spread.least).text,
                             quality_cell(result, spread.most).text);
  return cell;
}

DataCell speed_up_cell(const Comparison& comparison, const Result& result) {
  const double ratio = comparison.speed_up(result);
  return number_cell(ratio, fmt::format("{:.2f}x", ratio));
}

std::string change_text(const Comparison& comparison, const Result& result) {
  const double share = comparison.memory_share(result);
  return share > 0.0 ? fmt::format("{:+.0f} %", 100.0 * (share - 1.0)) : "-";
}

DataCell change_cell(const Comparison& comparison, const Result& result) {
  const double share = comparison.memory_share(result);
  if (share <= 0.0) return {.text = "-"};
  return {.text = change_text(comparison, result), .value = share - 1.0};
}

DataTable training_table(const Comparison& comparison) {
  const bool is_text = comparison.rows.front().is_text();
  DataTable table{.name = "quality",
                  .title = "Quality and speed",
                  .columns = {{.key = "experiment", .align = Align::kLeft},
                              {.key = "batch"},
                              {.key = is_text ? "train_perplexity" : "train_loss",
                               .title = is_text ? "train ppl" : "train loss"},
                              {.key = is_text ? "validation_perplexity" : "validation_wer",
                               .title = is_text ? "valid ppl" : "valid WER"},
                              {.key = "seconds_per_step", .title = "s/step"},
                              {.key = "total_seconds", .title = "total"},
                              {.key = "speed_up", .title = "speed-up"}}};
  for (const Result& result : comparison.rows) {
    if (!result.is_done()) {
      table.rows.push_back(failed_row(result, table));
      continue;
    }
    table.rows.push_back(
        {text_cell(result.name), count_cell(result.batch),
         number_cell(
             is_text ? result.train_perplexity() : result.train_loss,
             fmt::format("{:.4g}", is_text ? result.train_perplexity() : result.train_loss)),
         result.quality() ? quality_cell(result, *result.quality()) : DataCell{.text = "-"},
         digits_cell(result.seconds_per_step),
         number_cell(result.total_seconds, format_duration(result.total_seconds)),
         speed_up_cell(comparison, result)});
  }
  return table;
}

// A run whose steps are split is predicted by the largest micro-batch that its limits allow.
bool has_only_bounds(const Comparison& comparison) {
  return std::ranges::none_of(comparison.rows, [](const Result& row) {
    return std::ranges::find(row.settings, "adaptive_batching=false") != row.settings.end();
  });
}

DataTable memory_table(const Comparison& comparison) {
  const bool is_bound = has_only_bounds(comparison);
  DataTable table{
      .name = "memory",
      .title = "Memory",
      .columns = {{.key = "experiment", .align = Align::kLeft},
                  {.key = "after_forward_bytes", .title = "forward"},
                  {.key = "after_backward_bytes", .title = "backward"},
                  {.key = "peak_bytes", .title = "peak"},
                  {.key = "predicted_peak_bytes", .title = is_bound ? "at most" : "predicted"},
                  {.key = "change"}},
      .note = "The most of all steps, after forward, after backward and at the peak."};
  for (const Result& result : comparison.rows) {
    const StepMemory most = result.max_memory();
    table.rows.push_back({text_cell(result.name), bytes_cell(most.after_forward),
                          bytes_cell(most.after_backward), bytes_cell(most.peak),
                          bytes_cell(result.predicted.peak), change_cell(comparison, result)});
  }
  return table;
}

DataTable largest_table(const Comparison& comparison) {
  DataTable table{.name = "largest_batch",
                  .title = "Largest batch",
                  .columns = {{.key = "experiment", .align = Align::kLeft},
                              {.key = "tried", .title = "largest batch"},
                              {.key = "predicted"},
                              {.key = "peak_bytes", .title = "peak"},
                              {.key = "seconds_per_step", .title = "s/step"},
                              {.key = "items_per_second", .title = "items/s"}},
                  .note = "The most items in one micro-batch within the budget, found by trying."};
  for (const Result& result : comparison.rows) {
    if (!result.largest) continue;
    const LargestBatch& largest = *result.largest;
    const double speed =
        largest.seconds > 0.0 ? static_cast<double>(largest.tried) / largest.seconds : 0.0;
    table.rows.push_back({text_cell(result.name), count_cell(largest.tried),
                          count_cell(largest.predicted), bytes_cell(largest.peak_bytes),
                          digits_cell(largest.seconds), speed_cell(speed)});
  }
  return table;
}

// Under limits, every row trains the same data with the same effective batch.
DataTable limits_table(const Comparison& comparison) {
  DataTable table{.name = "limits",
                  .title = "Training under limits",
                  .columns = {{.key = "experiment", .align = Align::kLeft},
                              {.key = "budget_bytes", .title = "budget"},
                              {.key = "peak_bytes", .title = "peak"},
                              {.key = "change"},
                              {.key = "validation_wer", .title = "WER"},
                              {.key = "audio_seconds_per_second", .title = "audio-s/s"},
                              {.key = "speed_up", .title = "speed"}}};
  for (const Result& result : comparison.rows) {
    if (!result.is_done()) {
      table.rows.push_back(failed_row(result, table));
      continue;
    }
    table.rows.push_back({text_cell(result.name), bytes_cell(result.budget_bytes),
                          bytes_cell(result.peak_bytes()), change_cell(comparison, result),
                          spread_cell(comparison, result), speed_cell(result.speed),
                          speed_up_cell(comparison, result)});
  }
  return table;
}

// Lists experiments that were not completed, or whose settings had no effect. A note that all share
// is listed once.
DataTable notes_table(const Comparison& comparison) {
  DataTable table{.name = "notes",
                  .title = "Notes",
                  .columns = {{.key = "experiment", .align = Align::kLeft},
                              {.key = "note", .align = Align::kLeft}}};
  const std::string& first = comparison.rows.front().note;
  if (comparison.rows.size() > 1 && !first.empty() &&
      std::ranges::all_of(comparison.rows, [&](const Result& row) { return row.note == first; })) {
    table.rows.push_back({text_cell("all"), text_cell(first)});
    return table;
  }
  for (const Result& result : comparison.rows)
    if (!result.note.empty())
      table.rows.push_back({text_cell(result.name), text_cell(result.note)});
  return table;
}

// "width 512, layers 6"
std::string model_text(const Result& result) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : result.model.items())
    if (value.is_primitive())
      parts.push_back(
          fmt::format("{} {}", key, value.is_string() ? value.get<std::string>() : value.dump()));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string summary_of_techniques(const Comparison& comparison) {
  std::string text;
  for (const Result& result : comparison.rows) {
    text += fmt::format("  {}: {}.", result.name, result.title.empty() ? "no title" : result.title);
    if (result.is_done() && comparison.memory_share(result) > 0.0)
      text +=
          fmt::format(" Peak {}{} ({})", format_bytes(result.peak_bytes()),
                      result.memory.empty() ? ", predicted" : "", change_text(comparison, result));
    if (result.is_done() && result.seconds_per_step > 0.0)
      text += fmt::format(", {} per step ({})", format_duration(result.seconds_per_step),
                          speed_up_cell(comparison, result).text);
    text += '\n';
  }
  return text;
}

}  // namespace

// Devices of the completed runs, such as "NVIDIA H200; t4 (pretended on NVIDIA H200)".
std::string devices_of(const Comparison& comparison) {
  std::vector<std::string> devices;
  for (const Result& row : comparison.rows) {
    const bool is_known = std::ranges::find(devices, row.device) != devices.end();
    if (row.is_done() && !row.settings.empty() && !is_known) devices.push_back(row.device);
  }
  return fmt::format("{}", fmt::join(devices, "; "));
}

// The set-up is that of our first run that was completed: the standard run of limits is another
// program's.
std::vector<std::pair<std::string, std::string>> set_up_of(const Comparison& comparison) {
  const bool is_of_limits = comparison.kind == Suite::Kind::kLimits;
  const auto found = std::ranges::find_if(
      comparison.rows, [](const Result& row) { return row.is_done() && !row.settings.empty(); });
  const Result& shown = found == comparison.rows.end() ? comparison.rows.front() : *found;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"device", devices_of(comparison)},
      {"batch",
       fmt::format("{} {}{}", shown.batch, shown.is_text() ? "rows" : "utterances",
                   shown.is_text() ? fmt::format(" of {} tokens", shown.row_tokens) : "")}};
  if (comparison.kind == Suite::Kind::kSizes) return facts;
  if (!is_of_limits) facts.emplace_back("budget", format_bytes(shown.budget_bytes));
  facts.emplace_back("steps", std::to_string(shown.num_steps));
  facts.emplace_back("model", model_text(shown));
  facts.emplace_back(
      "parameters",
      fmt::format("{} million", format_digits(static_cast<double>(shown.num_parameters) / 1e6)));
  return facts;
}

std::vector<DataTable> tables_of(const Comparison& comparison) {
  std::vector<DataTable> tables;
  switch (comparison.kind) {
    case Suite::Kind::kTraining:
      tables = {training_table(comparison), memory_table(comparison), largest_table(comparison)};
      break;
    case Suite::Kind::kLimits: tables = {limits_table(comparison)}; break;
    case Suite::Kind::kSizes: tables = size_tables(comparison); break;
  }
  tables.push_back(notes_table(comparison));
  std::erase_if(tables, [](const DataTable& table) { return table.is_empty(); });
  return tables;
}

std::string comparison_report(const Comparison& comparison) {
  // Files are not limited by the width of a terminal.
  constexpr int64_t kAnyWidth = std::numeric_limits<int64_t>::max();
  std::string text = fmt::format("Suite {} on {}\n\n", comparison.suite, comparison.dataset);
  for (const auto& [name, value] : set_up_of(comparison))
    text += fmt::format("  {:<12}{}\n", name, value);
  for (const DataTable& table : tables_of(comparison))
    text += fmt::format("\n{}\n\n{}{}", table.title, table.note.empty() ? "" : table.note + "\n\n",
                        terminal_text(table, kAnyWidth));
  if (comparison.kind == Suite::Kind::kSizes) return text;
  text += "\nTechniques\n\n" + summary_of_techniques(comparison) + "\nAnalysis\n\n";
  for (const std::string& sentence : analyse(comparison)) text += "  " + sentence + "\n";
  return text;
}

}  // namespace sotto::lab
