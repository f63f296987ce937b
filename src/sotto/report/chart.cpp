#include "sotto/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "sotto/report/table.h"

namespace sotto::report {

namespace {

// Bars in eighths of a character's height.
constexpr std::array<std::string_view, 9> kEighths = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::vector<double> columns_of(std::span<const double> values, int64_t width) {
  const int64_t count = std::ssize(values);
  std::vector<double> columns;
  for (int64_t column = 0; column < width; ++column) {
    const int64_t first = column * count / width;
    const int64_t last = std::max(first + 1, (column + 1) * count / width);
    columns.push_back(*std::max_element(values.begin() + first, values.begin() + last));
  }
  return columns;
}

std::string names_below(std::span<const Stretch> stretches, int64_t count, int64_t width) {
  std::string line;
  int64_t before = 0;
  for (const Stretch& stretch : stretches) {
    const int64_t begin = before * width / count;
    before += stretch.num_values;
    const int64_t room = before * width / count - begin;
    line.resize(static_cast<size_t>(begin), ' ');
    // The name must be followed by at least one blank.
    if (display_width(stretch.name) < room || before == count) line += stretch.name;
  }
  return line;
}

}  // namespace

std::string Chart::to_string(int64_t max_width) const {
  if (values.empty()) return "";
  const auto count = static_cast<int64_t>(values.size());
  const int64_t margin = std::max<int64_t>(1, display_width(top));
  const std::string blanks(static_cast<size_t>(margin), ' ');
  const int64_t width = std::max<int64_t>(1, max_width - margin - 2);
  const std::vector<double> columns = columns_of(values, width);
  const double most = std::ranges::max(columns);
  std::string text;
  for (int64_t row = kHeight - 1; row >= 0; --row) {
    std::string line = row == kHeight - 1 ? top + " ┤" : blanks + " │";
    for (const double value : columns) {
      const double rows = most > 0.0 ? kHeight * value / most : 0.0;
      const double eighths = 8.0 * (rows - static_cast<double>(row));
      line += kEighths[static_cast<size_t>(std::clamp<int64_t>(std::llround(eighths), 0, 8))];
    }
    text += trimmed(std::move(line));
  }
  text += blanks.substr(1) + "0 └";
  for (int64_t i = 0; i < width; ++i) text += "─";
  return text + "\n" + trimmed(blanks + "  " + names_below(stretches, count, width));
}

}  // namespace sotto::report
