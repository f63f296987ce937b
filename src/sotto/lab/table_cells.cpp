#include "sotto/lab/table_cells.h"

#include <fmt/format.h>

#include <cmath>

#include "sotto/core/units.h"

namespace sotto::lab {

using report::DataCell;
using report::DataTable;

DataCell text_cell(const std::string& text) {
  return report::cell_of(text);
}

DataCell number_cell(double value, const std::string& text) {
  if (value <= 0.0) return {.text = "-"};
  return {.text = text, .value = value};
}

DataCell bytes_cell(int64_t bytes) {
  return number_cell(static_cast<double>(bytes), format_bytes(bytes));
}

DataCell digits_cell(double value) {
  return number_cell(value, format_digits(value));
}

DataCell speed_cell(double speed) {
  return number_cell(
      speed, speed >= 100.0 ? report::format_count(std::llround(speed)) : format_digits(speed));
}

DataCell count_cell(int64_t count) {
  return {.text = std::to_string(count), .value = count};
}

std::vector<DataCell> failed_row(const Result& result, const DataTable& table) {
  std::vector<DataCell> row(table.columns.size(), DataCell{.text = "-"});
  row[0] = text_cell(result.name);
  row[1] = text_cell(result.status == Result::Status::kDoesNotFit ? "does not fit" : "failed");
  return row;
}

std::string value_of(const Result& result, const std::string& key) {
  std::string value;
  for (const auto* list : {&result.settings, &result.decided}) {
    for (const std::string& setting : *list)
      if (setting.starts_with(key + "=")) value = setting.substr(key.size() + 1);
  }
  return value.empty() ? "-" : value;
}

}  // namespace sotto::lab
