#include "sotto/report/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "sotto/core/error.h"

namespace sotto::report {

namespace {

constexpr int64_t kGap = 2;
// A narrower truncated column is unreadable.
constexpr int64_t kMinTextWidth = 4;
constexpr std::string_view kEllipsis = "…";
constexpr std::string_view kRule = "─";

struct Range {
  char32_t first;
  char32_t last;
};

// Characters that take two columns: Hangul, CJK, kana, full-width forms, pictographs (the blocks of
// Unicode Standard Annex 11 that are common in terminals).
constexpr std::array kWide = {
    Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0xA4CF},
    Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},
    Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},   Range{0x1F300, 0x1F64F},
    Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD},
};

// Characters of zero width: combining marks, zero-width blanks and joiners, variation selectors.
constexpr std::array kZero = {Range{0x0300, 0x036F}, Range{0x200B, 0x200F}, Range{0x20D0, 0x20FF},
                              Range{0xFE00, 0xFE0F}};

template <size_t N>
bool is_in(char32_t letter, const std::array<Range, N>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [letter](const Range& range) {
    return range.first <= letter && letter <= range.last;
  });
}

int64_t letter_width(char32_t letter) {
  if (is_in(letter, kZero)) return 0;
  return is_in(letter, kWide) ? 2 : 1;
}

size_t sequence_length(unsigned char lead) {
  if (lead >= 0xF0 && lead < 0xF8) return 4;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xC0 && lead < 0xE0) return 2;
  return 1;
}

struct Letter {
  size_t num_bytes;
  int64_t width;
};

// Returns the first code point of a text that is not empty; an invalid sequence counts as one byte
// and one column.
Letter first_letter(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const size_t length = sequence_length(lead);
  if (length == 1 || length > text.size()) return {.num_bytes = 1, .width = 1};
  char32_t value = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0u) != 0x80u) return {.num_bytes = 1, .width = 1};
    value = value << 6 | (byte & 0x3Fu);
  }
  return {.num_bytes = length, .width = letter_width(value)};
}

std::string repeated(std::string_view text, int64_t count) {
  std::string result;
  for (int64_t i = 0; i < count; ++i) result += text;
  return result;
}

// A line end or an escape character inside a cell (as in the name of a process) would break the
// table.
std::string without_control_characters(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7F; },
      ' ');
  return text;
}

}  // namespace

int64_t display_width(std::string_view text) {
  int64_t width = 0;
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    width += letter.width;
    text.remove_prefix(letter.num_bytes);
  }
  return width;
}

std::string shorten(std::string_view text, int64_t max_width) {
  if (display_width(text) <= max_width) return std::string(text);
  if (max_width <= 0) return {};
  size_t kept = 0;
  int64_t width = 0;
  while (kept < text.size()) {
    const Letter letter = first_letter(text.substr(kept));
    if (width + letter.width > max_width - 1) break;
    width += letter.width;
    kept += letter.num_bytes;
  }
  return std::string(text.substr(0, kept)).append(kEllipsis);
}

int64_t output_width() {
  constexpr int64_t kUsualTerminal = 100;
  if (isatty(STDOUT_FILENO) != 1) return std::numeric_limits<int64_t>::max();
  winsize size = {};
  const bool is_known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : kUsualTerminal;
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  SOTTO_ASSERT(cells.size() == columns_.size(), "{} cells in a table of {} columns", cells.size(),
               columns_.size());
  for (std::string& cell : cells) cell = without_control_characters(std::move(cell));
  rows_.push_back(std::move(cells));
}

void Table::add_rule() {
  rows_.emplace_back();
}

bool Table::has_header() const {
  return std::any_of(columns_.begin(), columns_.end(),
                     [](const Column& column) { return !column.title.empty(); });
}

std::vector<int64_t> Table::column_widths(int64_t max_width) const {
  std::vector<int64_t> widths;
  int64_t total = -kGap;
  for (size_t i = 0; i < columns_.size(); ++i) {
    int64_t width = display_width(columns_[i].title);
    for (const auto& row : rows_) {
      if (!row.empty()) width = std::max(width, display_width(row[i]));
    }
    widths.push_back(width);
    total += width + kGap;
  }
  // Removes one column at a time from the currently widest column, so that long columns become
  // equal.
  for (; total > max_width; --total) {
    int64_t* widest = nullptr;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].align != Align::kLeft || widths[i] <= kMinTextWidth) continue;
      if (widest == nullptr || widths[i] > *widest) widest = &widths[i];
    }
    if (widest == nullptr) break;
    --*widest;
  }
  return widths;
}

std::string Table::format_line(const std::vector<std::string>& cells,
                               const std::vector<int64_t>& widths) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string text =
        columns_[i].align == Align::kLeft ? shorten(cells[i], widths[i]) : cells[i];
    const std::string padding = repeated(" ", widths[i] - display_width(text));
    if (i > 0) line += repeated(" ", kGap);
    line += columns_[i].align == Align::kLeft ? text + padding : padding + text;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string Table::to_string(int64_t max_width) const {
  const std::vector<int64_t> widths = column_widths(max_width);
  int64_t total = -kGap;
  for (const int64_t width : widths) total += width + kGap;
  const std::string rule = repeated(kRule, total) + "\n";

  std::string text;
  if (has_header()) {
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(column.title);
    text += format_line(titles, widths) + rule;
  }
  bool rule_wanted = false;
  bool row_seen = false;
  for (const auto& row : rows_) {
    if (row.empty()) {
      rule_wanted = row_seen;
      continue;
    }
    if (rule_wanted) text += rule;
    rule_wanted = false;
    row_seen = true;
    text += format_line(row, widths);
  }
  return text;
}

}  // namespace sotto::report
