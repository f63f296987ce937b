// The lines of a text file of any size, one after another, without their line ends (\n or \r\n),
// and without a byte order mark. Nothing is copied.
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
  // `expected` describes the file in errors. Throws DataError where the file cannot be read.
  TextLines(const std::filesystem::path& path, const std::string& expected);

  // Returns the next line; std::nullopt at the end. It is valid while this object lives.
  std::optional<std::string_view> next();
  // Number of the last returned line, from 1.
  int64_t number() const { return number_; }
  // The text after the last returned line.
  std::string_view rest() const { return text_; }
  // Skips `bytes` of rest(), which contain `lines` line ends.
  void skip(size_t bytes, int64_t lines);

 private:
  MappedFile file_;
  std::string_view text_;
  int64_t number_ = 0;
};

// The first word of a line and the text after it, both trimmed.
struct FirstWord {
  std::string_view word;
  std::string_view rest;
};
FirstWord split_first_word(std::string_view line);

// Parses seconds or another finite number; std::nullopt for any other text.
std::optional<double> parse_number(std::string_view text);

}  // namespace sotto::data
