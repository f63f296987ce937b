// A table as plain text for the terminal: columns separated by two blanks, numbers aligned to the
// right, within a given width. Widths are display widths: UTF-8 is decoded, and East Asian
// characters take two columns.
//
//   Table table({{"layer"}, {"bytes", Align::kRight}});
//   table.add_row({"encoder.0", "7.38 GiB"});
//   std::cout << table.to_string();
//
// The width of a terminal limits a table; output to a pipe or file is not limited and shows every
// cell in full.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::report {

enum class Align { kLeft, kRight };

struct Column {
  // A table whose titles are all empty has no header.
  std::string title = {};
  // Left-aligned columns are text and may be truncated; right-aligned columns are numbers and never
  // are.
  Align align = Align::kLeft;
};

// Returns the width of standard output: that of the terminal, or unlimited if there is none.
int64_t output_width();

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // Adds a row, which needs one cell for each column.
  void add_row(std::vector<std::string> cells);

  // Adds a horizontal rule between the last row and the next: starts a section. It is omitted if no
  // row follows.
  void add_rule();

  // Returns all lines, each with its line end and without trailing blanks. If they would exceed
  // `max_width`, the widest text columns are truncated with "…"; the table exceeds the width only
  // if the numbers alone do.
  std::string to_string(int64_t max_width = output_width()) const;

 private:
  std::vector<int64_t> column_widths(int64_t max_width) const;
  bool has_header() const;
  std::string format_line(const std::vector<std::string>& cells,
                          const std::vector<int64_t>& widths) const;

  std::vector<Column> columns_;
  // A row without cells is a rule.
  std::vector<std::vector<std::string>> rows_;
};

// Returns the display width of `text`. An invalid UTF-8 byte counts as one column.
int64_t display_width(std::string_view text);

// Returns `text` if it fits into `max_width` columns, otherwise its beginning and "…".
std::string shorten(std::string_view text, int64_t max_width);

}  // namespace sotto::report
