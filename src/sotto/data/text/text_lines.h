// The lines of a text file of any size, one after the other, without their ends: \n or \r\n, and
// without a byte order mark. Nothing is copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "sotto/core/files/mapped_file.h"
#include "sotto/core/words.h"

namespace sotto::data {

class TextLines {
 public:
  // `expected` says in errors what should be there. Throws DataError where the file cannot be read.
  TextLines(const std::filesystem::path& path, const std::string& expected);

  // The next line; none at the end. It lasts as long as this.
  std::optional<std::string_view> next();
  // Of the line that came last, from 1.
  int64_t number() const { return number_; }
  // What is left behind the line that came last.
  std::string_view rest() const { return text_; }
  // Goes on behind `bytes` of rest(), which hold `lines` ends of lines.
  void skip(size_t bytes, int64_t lines);

 private:
  MappedFile file_;
  std::string_view text_;
  int64_t number_ = 0;
};

// The first word of a line and what follows it, both trimmed.
struct FirstWord {
  std::string_view word;
  std::string_view rest;
};
FirstWord split_first_word(std::string_view line);

// Seconds or another number that is finite; none where the text is anything else.
std::optional<double> parse_number(std::string_view text);

}  // namespace sotto::data
