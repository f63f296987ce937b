#include "sotto/data/text/text_lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace sotto::data {

TextLines::TextLines(const std::filesystem::path& path, const std::string& expected)
    : file_(MappedFile::open(path, expected)),
      text_(reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
}

std::optional<std::string_view> TextLines::next() {
  if (text_.empty()) return std::nullopt;
  const size_t end = std::min(text_.find('\n'), text_.size());
  std::string_view line = text_.substr(0, end);
  text_.remove_prefix(std::min(end + 1, text_.size()));
  ++number_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

void TextLines::skip(size_t bytes, int64_t lines) {
  text_.remove_prefix(bytes);
  number_ += lines;
}

FirstWord split_first_word(std::string_view line) {
  line = trimmed(line);
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  return {.word = line.substr(0, end), .rest = trimmed(line.substr(end))};
}

std::optional<double> parse_number(std::string_view text) {
  text = trimmed(text);
  double number = 0.0;
  const auto [last, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = last == text.data() + text.size();
  if (text.empty() || code != std::errc{} || !is_whole || !std::isfinite(number))
    return std::nullopt;
  return number;
}

}  // namespace sotto::data
