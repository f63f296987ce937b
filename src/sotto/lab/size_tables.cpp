#include "sotto/lab/size_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sotto/lab/table_cells.h"

namespace sotto::lab {

namespace {

using report::Align;
using report::DataCell;
using report::DataTable;

// A folder is named by its last part.
std::string network_of(const Result& result) {
  const std::filesystem::path path =
      std::filesystem::path(value_of(result, "model.preset")).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

DataCell millions_cell(int64_t count) {
  const auto number = static_cast<double>(count);
  return number_cell(number, fmt::format("{:.1f} M", number / 1e6));
}

// Speech: "310x", times real time; text: tokens per second.
DataCell pace_cell(const Result& result, double speed) {
  DataCell cell = speed_cell(speed);
  if (!result.is_text() && !cell.value.is_null()) cell.text += 'x';
  return cell;
}

// Predicted memory, measured memory, predicted speed and measured speed.
void append_figures(const Result& result, std::vector<DataCell>& row) {
  row.push_back(bytes_cell(result.predicted.peak));
  row.push_back(bytes_cell(result.max_memory().peak));
  row.push_back(pace_cell(result, result.predicted_speed));
  row.push_back(pace_cell(result, result.speed));
}

template <class IsIncluded, class RowOf>
void add_rows(const Comparison& comparison, IsIncluded is_included, RowOf row_of,
              DataTable& table) {
  for (const Result& result : comparison.rows)
    if (is_included(result))
      table.rows.push_back(result.is_done() ? row_of(result) : failed_row(result, table));
}

DataTable smallest_budgets_table(const Comparison& comparison) {
  DataTable table{
      .name = "smallest_budgets",
      .title = "Smallest budget in which each network can be trained",
      .columns = {{.key = "network", .align = Align::kLeft},
                  {.key = "parameters"},
                  {.key = "budget_bytes", .title = "smallest budget"},
                  {.key = "predicted_peak_bytes", .title = "memory"},
                  {.key = "peak_bytes", .title = "measured"},
                  {.key = "predicted_speed", .title = "speed"},
                  {.key = "speed", .title = "measured"}},
      .note =
          "The smallest budget for which sotto plan finds settings, with the memory of the "
          "largest steps and the speed in that budget."};
  add_rows(
      comparison, [](const Result& result) { return result.has_smallest_budget; },
      [](const Result& result) {
        std::vector<DataCell> row = {text_cell(network_of(result)),
                                     millions_cell(result.num_parameters),
                                     bytes_cell(result.budget_bytes)};
        append_figures(result, row);
        return row;
      },
      table);
  return table;
}

DataTable micro_batches_table(const Comparison& comparison) {
  DataTable table{
      .name = "micro_batches",
      .title = "Memory and speed by micro-batch",
      .columns = {{.key = "network", .align = Align::kLeft},
                  {.key = "micro_batch", .title = "micro-batch"},
                  {.key = "budget_bytes", .title = "budget"},
                  {.key = "predicted_peak_bytes", .title = "memory"},
                  {.key = "peak_bytes", .title = "measured"},
                  {.key = "predicted_speed", .title = "speed"},
                  {.key = "speed", .title = "measured"}},
      .note =
          "Memory: of the largest steps of the first epoch, predicted and measured; nothing is "
          "recomputed or kept on the host. Budget: the smallest --memory for these settings, "
          "with what libraries take and the longest utterances in one micro-batch. Speed: of a "
          "step of median length, predicted, and of the largest steps, measured; for speech "
          "as a multiple of real time."};
  add_rows(
      comparison, [](const Result& result) { return result.micro_batch > 0; },
      [](const Result& result) {
        std::vector<DataCell> row = {text_cell(network_of(result)), count_cell(result.micro_batch),
                                     bytes_cell(result.budget_bytes)};
        append_figures(result, row);
        return row;
      },
      table);
  return table;
}

DataTable budgets_table(const Comparison& comparison) {
  DataTable table{
      .name = "sizes",
      .title = "Memory and speed by network and budget",
      .columns = {{.key = "experiment", .title = "network, budget", .align = Align::kLeft},
                  {.key = "parameters"},
                  {.key = "predicted_peak_bytes", .title = "predicted"},
                  {.key = "peak_bytes", .title = "measured"},
                  {.key = "numerics", .align = Align::kLeft},
                  {.key = "state", .align = Align::kLeft},
                  {.key = "predicted_speed", .title = "predicted/s"},
                  {.key = "speed", .title = "measured/s"}},
      .note =
          "Predicted memory: of the steps that were run, or else of the largest possible. "
          "Predicted speed: of a step of median length; measured: of the largest."};
  add_rows(
      comparison,
      [](const Result& result) { return result.micro_batch == 0 && !result.has_smallest_budget; },
      [](const Result& result) {
        return std::vector<DataCell>{text_cell(result.name),
                                     millions_cell(result.num_parameters),
                                     bytes_cell(result.predicted.peak),
                                     bytes_cell(result.max_memory().peak),
                                     text_cell(value_of(result, "numerics")),
                                     text_cell(value_of(result, "optimizer.state")),
                                     speed_cell(result.predicted_speed),
                                     speed_cell(result.speed)};
      },
      table);
  return table;
}

DataTable settings_table(const Comparison& comparison) {
  DataTable table{.name = "settings",
                  .title = "Settings that were chosen",
                  .columns = {{.key = "experiment", .align = Align::kLeft},
                              {.key = "numerics", .align = Align::kLeft},
                              {.key = "state", .align = Align::kLeft},
                              {.key = "tier", .align = Align::kLeft}}};
  add_rows(
      comparison,
      [](const Result& result) {
        return result.is_done() && (result.micro_batch > 0 || result.has_smallest_budget);
      },
      [](const Result& result) {
        return std::vector<DataCell>{
            text_cell(result.name), text_cell(value_of(result, "numerics")),
            text_cell(value_of(result, "optimizer.state")), text_cell(value_of(result, "tier"))};
      },
      table);
  return table;
}

}  // namespace

std::vector<DataTable> size_tables(const Comparison& comparison) {
  return {smallest_budgets_table(comparison), micro_batches_table(comparison),
          budgets_table(comparison), settings_table(comparison)};
}

}  // namespace sotto::lab
