#include "sotto/report/data_table.h"

#include <fmt/format.h>

#include <cmath>

#include "sotto/report/svg.h"

namespace sotto::report {

namespace {

const std::string& title_of(const DataColumn& column) {
  return column.title.empty() ? column.key : column.title;
}

std::string markdown_cell(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '|' || letter == '\\') escaped += '\\';
    escaped += letter == '\n' ? ' ' : letter;
  }
  return escaped;
}

std::string csv_cell(const DataCell& cell) {
  if (cell.value.is_null()) return "";
  if (!cell.value.is_string()) return cell.value.dump();
  auto text = cell.value.get<std::string>();
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + "\"";
}

}  // namespace

DataCell cell_of(double value, Unit unit) {
  if (!std::isfinite(value)) return {.text = "-"};
  const bool is_integer = unit == Unit::kCount || unit == Unit::kBytes;
  return {.text = format_value(value, unit),
          .value = is_integer ? nlohmann::ordered_json(std::llround(value))
                              : nlohmann::ordered_json(value)};
}

DataCell cell_of(const std::string& text) {
  if (text.empty()) return {};
  return {.text = text, .value = text};
}

DataTable select_columns(const DataTable& table, std::span<const std::string_view> keys) {
  DataTable selected{.name = table.name,
                     .title = table.title,
                     .columns = {},
                     .rows = std::vector<std::vector<DataCell>>(table.rows.size()),
                     .note = table.note};
  for (const std::string_view key : keys) {
    for (size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].key != key) continue;
      selected.columns.push_back(table.columns[i]);
      for (size_t row = 0; row < table.rows.size(); ++row)
        selected.rows[row].push_back(table.rows[row][i]);
    }
  }
  return selected;
}

std::string terminal_text(const DataTable& table, int64_t max_width) {
  std::vector<Column> columns;
  for (const DataColumn& column : table.columns)
    columns.push_back({.title = title_of(column), .align = column.align});
  Table text(columns);
  for (const std::vector<DataCell>& row : table.rows) {
    std::vector<std::string> cells;
    for (const DataCell& cell : row) cells.push_back(cell.text);
    text.add_row(std::move(cells));
  }
  return text.to_string(max_width);
}

std::string markdown_text(const DataTable& table) {
  std::string text = fmt::format("## {}\n\n", table.title);
  if (!table.note.empty()) text += table.note + "\n\n";
  std::string rule;
  for (const DataColumn& column : table.columns) {
    text += fmt::format("| {} ", markdown_cell(title_of(column)));
    rule += column.align == Align::kRight ? "| ---: " : "| --- ";
  }
  text += "|\n" + rule + "|\n";
  for (const std::vector<DataCell>& row : table.rows) {
    for (const DataCell& cell : row) text += fmt::format("| {} ", markdown_cell(cell.text));
    text += "|\n";
  }
  return text;
}

std::string csv_text(const DataTable& table) {
  std::string text;
  for (size_t i = 0; i < table.columns.size(); ++i)
    text += (i == 0 ? "" : ",") + table.columns[i].key;
  text += '\n';
  for (const std::vector<DataCell>& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + csv_cell(row[i]);
    text += '\n';
  }
  return text;
}

nlohmann::ordered_json rows_json(const DataTable& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::vector<DataCell>& row : table.rows) {
    nlohmann::ordered_json entry;
    for (size_t i = 0; i < row.size(); ++i) entry[table.columns[i].key] = row[i].value;
    rows.push_back(std::move(entry));
  }
  return rows;
}

std::string html_text(const DataTable& table) {
  std::string text = fmt::format("<div class=\"scroll\"><table data-table=\"{}\">\n<thead><tr>",
                                 escape_xml(table.name));
  const auto number_class = [&](size_t column) {
    return table.columns[column].align == Align::kRight ? " class=\"number\"" : "";
  };
  for (size_t i = 0; i < table.columns.size(); ++i)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", number_class(i),
                        escape_xml(title_of(table.columns[i])));
  text += "</tr></thead>\n<tbody>\n";
  for (const std::vector<DataCell>& row : table.rows) {
    text += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      text += fmt::format("<td{}>{}</td>", number_class(i), escape_xml(row[i].text));
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

}  // namespace sotto::report
