// A table as plain text for the terminal: columns two blanks apart, numbers to the right, within a
// given width. Widths are those on the screen: UTF-8 is decoded, and East Asian letters take two
// places.
//
//   Table table({{"layer"}, {"bytes", Align::kRight}});
//   table.add_row({"encoder.0", "7.38 GiB"});
//   std::cout << table.to_string();
//
// A terminal's width bounds a table; a pipe and a file have none, and get every cell whole.
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
  // Columns aligned left are text and may be cut; those aligned right are numbers and never are.
  Align align = Align::kLeft;
};

// Places of a line on standard output: those of the terminal; without one, as many as are needed.
int64_t output_width();

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // Needs one cell for each column.
  void add_row(std::vector<std::string> cells);

  // A line across the table between the last row and the next: begins a section. It is not drawn
  // where no row follows.
  void add_rule();

  // All lines, each with its line end and without trailing blanks. Where they would exceed
  // `max_width`, the widest text columns are cut with "…"; the table is wider than that only where
  // numbers alone are.
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

// Places on the screen that `text` takes. A byte that is no UTF-8 counts as one.
int64_t display_width(std::string_view text);

// `text` where it fits into `max_width` places, else its beginning and "…".
std::string shorten(std::string_view text, int64_t max_width);

}  // namespace sotto::report
