#include "sotto/data/text/table_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/files/text_file.h"

namespace sotto::data {

namespace {

constexpr const char* kTable = "a table whose first row names the columns";
// A quote that is not closed within this many bytes is not an opening quote.
constexpr size_t kMaxFieldBytes = size_t{64} << 10;

char find_delimiter(std::string_view header) {
  char best = ',';
  for (const char candidate : {'\t', ';', '|', ','}) {
    if (std::ranges::count(header, candidate) > std::ranges::count(header, best)) best = candidate;
  }
  return best;
}

// Removes the quotes around the whole field, if quotes inside are doubled.
std::string unquoted(std::string_view field) {
  if (field.size() < 2 || field.front() != '"' || field.back() != '"') return std::string(field);
  std::string text;
  const std::string_view inside = field.substr(1, field.size() - 2);
  for (size_t at = 0; at < inside.size(); ++at) {
    if (inside[at] == '"') {
      // A single quote: the quotes are part of the text.
      if (at + 1 == inside.size() || inside[at + 1] != '"') return std::string(field);
      ++at;
    }
    text += inside[at];
  }
  return text;
}

}  // namespace

TableReader::TableReader(const std::filesystem::path& path) : path_(path), lines_(path, kTable) {
  std::optional<std::string_view> header = lines_.next();
  while (header && trimmed(*header).empty()) header = lines_.next();
  if (!header) refuse_file(path, "no rows", kTable, {});
  delimiter_ = find_delimiter(*header);
  TableRow row = split(*header);
  if (!row.fault.empty())
    refuse_file(path, fmt::format("line {}: {}", row.line, row.fault), kTable, {});
  for (const std::string& name : row.cells) columns_.emplace_back(trimmed(name));
}

std::optional<TableRow> TableReader::next() {
  while (const std::optional<std::string_view> line = lines_.next()) {
    if (trimmed(*line).empty()) continue;
    TableRow row = split(*line);
    if (row.fault.empty() && row.cells.size() != columns_.size()) {
      row.fault = fmt::format("{} fields, expected {} as in the first row", row.cells.size(),
                              columns_.size());
    }
    return row;
  }
  return std::nullopt;
}

TableRow TableReader::split(std::string_view line) {
  TableRow row{.line = lines_.number(), .cells = {}, .fault = {}};
  if (!is_utf8(line)) row.fault = "not UTF-8";
  while (row.fault.empty()) {
    if (delimiter_ != '\t' && line.starts_with('"')) {
      row.cells.push_back(take_quoted(line, row));
    } else {
      const size_t end = std::min(line.find(delimiter_), line.size());
      row.cells.push_back(delimiter_ == '\t' ? unquoted(line.substr(0, end))
                                             : std::string(line.substr(0, end)));
      line.remove_prefix(end);
    }
    if (line.empty()) break;
    if (row.fault.empty() && line.front() != delimiter_)
      row.fault = fmt::format("'{}' after a closing quote", line.front());
    line.remove_prefix(1);
    if (line.empty()) {
      row.cells.emplace_back();
      break;
    }
  }
  return row;
}

// Removes a quoted field from the front of a line. If it continues past the end of the line, `line`
// becomes the rest of the line on which it ends.
std::string TableReader::take_quoted(std::string_view& line, TableRow& row) {
  // The line and the following text are contiguous, separated by the line end.
  const std::string_view rest = lines_.rest();
  const char* begin = line.data();
  const std::string_view text(begin, static_cast<size_t>(rest.data() + rest.size() - begin));
  std::string field;
  size_t at = 1;
  for (; at < std::min(text.size(), kMaxFieldBytes); ++at) {
    if (text[at] == '"' && text.substr(at + 1, 1) != "\"") break;
    if (text[at] == '"') ++at;
    field += text[at];
  }
  if (at >= std::min(text.size(), kMaxFieldBytes)) {
    row.fault = "an unclosed quote";
    return {};
  }
  ++at;
  const char* line_end = line.data() + line.size();
  if (text.data() + at <= line_end) {
    line.remove_prefix(at);
    return field;
  }
  const std::string_view tail = text.substr(at);
  const size_t end = std::min(tail.find('\n'), tail.size());
  const std::string_view inside = text.substr(0, at);
  const size_t skipped = static_cast<size_t>(tail.data() - rest.data()) + end;
  lines_.skip(std::min(skipped + 1, rest.size()), std::ranges::count(inside, '\n'));
  line = tail.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!is_utf8(inside) || !is_utf8(line)) row.fault = "not UTF-8";
  return field;
}

}  // namespace sotto::data
