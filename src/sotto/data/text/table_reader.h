// Tables as text: CSV, TSV and their relatives. The first row names the columns. In a CSV a field
// in quotes may hold commas and line ends, and a quote is written twice; in a TSV a field ends at
// the tab, whatever quotes it holds, and quotes around all of it are taken off. A row that is not
// so is returned with its fault, and the reading goes on behind it.
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
  // Where it begins, from 1.
  int64_t line = 0;
  std::vector<std::string> cells;
  // What is wrong with it; empty where nothing is.
  std::string fault;
};

class TableReader {
 public:
  // Reads the row of names; its delimiter is that of the table: the one of tab, comma, semicolon
  // and bar that stands in it most often. Throws DataError where there is none or it is broken.
  explicit TableReader(const std::filesystem::path& path);

  const std::vector<std::string>& columns() const { return columns_; }
  char delimiter() const { return delimiter_; }

  // The next row that is not blank; none at the end.
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
