// Tables as text: CSV, TSV and similar formats. The first row names the columns. In a CSV a quoted
// field may hold commas and line ends, and quotes are doubled; in a TSV a field ends at the tab,
// whatever quotes it holds, and quotes around the whole field are removed. An invalid row is
// returned with its fault, and reading continues after it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/data/text/text_lines.h"

namespace sotto::data {

struct TableRow {
  // First line of the row, from 1.
  int64_t line = 0;
  std::vector<std::string> cells;
  // Description of the fault; empty if there is none.
  std::string fault;
};

class TableReader {
 public:
  // Reads the header row; the delimiter of the table is the most frequent one in it of tab, comma,
  // semicolon and bar. Throws DataError where there is no header or it is broken.
  explicit TableReader(const std::filesystem::path& path);

  const std::vector<std::string>& columns() const { return columns_; }
  char delimiter() const { return delimiter_; }

  // Returns the next row that is not blank; std::nullopt at the end.
  std::optional<TableRow> next();

 private:
  std::string take_quoted(std::string_view& line, TableRow& row);
  TableRow split(std::string_view line);

  std::filesystem::path path_;
  TextLines lines_;
  char delimiter_ = ',';
  std::vector<std::string> columns_;
};

}  // namespace sotto::data
