// A table of values in every form that a report has: text for the terminal, Markdown, CSV, JSON and
// HTML. A cell holds the text for people and the exact value for programs.
//
//   DataTable table{.name = "evaluations",
//                   .title = "Evaluations",
//                   .columns = {{.key = "step"}, {.key = "wer", .title = "WER"}}};
//   table.rows.push_back({cell_of(100.0, Unit::kCount), cell_of(0.142, Unit::kShare)});
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/report/axis.h"
#include "sotto/report/table.h"

namespace sotto::report {

struct DataCell {
  std::string text = {};
  // Null: there is no value.
  nlohmann::ordered_json value = {};
};

// The text formats the value by its unit. A value that is not finite: "-" and null.
DataCell cell_of(double value, Unit unit);
DataCell cell_of(const std::string& text);

struct DataColumn {
  // Name for programs, with the unit of the values: "peak_bytes".
  std::string key;
  // Title for people; empty: the key.
  std::string title = {};
  Align align = Align::kRight;
};

struct DataTable {
  std::string name;
  std::string title;
  std::vector<DataColumn> columns = {};
  std::vector<std::vector<DataCell>> rows = {};
  // A sentence below the title.
  std::string note = {};

  bool is_empty() const { return rows.empty(); }
};

// Returns a table of some of the columns, in the order of `keys`; those it does not have are left
// out.
DataTable select_columns(const DataTable& table, std::span<const std::string_view> keys);

std::string terminal_text(const DataTable& table, int64_t max_width = output_width());
// With the title as a heading of the second level.
std::string markdown_text(const DataTable& table);
// Values, not texts; a header of keys.
std::string csv_text(const DataTable& table);
// An array of objects.
nlohmann::ordered_json rows_json(const DataTable& table);
// A table element.
std::string html_text(const DataTable& table);

}  // namespace sotto::report
