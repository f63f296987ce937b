// A vocabulary of characters, in the form of wav2vec2's vocab.json: {"<pad>": 0, "|": 1, "a": 2}.
// `<pad>` (or `[PAD]`) is the blank of CTC and `|` stands for the space between words. A character
// is a code point of UTF-8. Other entries in angle or square brackets, such as <unk> and </s>, keep
// their numbers and are never encoded or decoded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

class Vocabulary {
 public:
  struct Encoded {
    std::vector<int32_t> labels;
    // Characters of the text that are not in the vocabulary, each once, in their order. Where there
    // are any, labels are those of the others.
    std::vector<std::string> unknown;
  };

  // The blank, the delimiter, and every character in the order of code points. A `|` is not taken
  // in: it could not be told from a space.
  static Vocabulary from_characters(std::span<const char32_t> characters);
  // Of every character of the texts.
  static Vocabulary from_texts(const std::vector<std::string_view>& texts);

  // A vocab.json. Throws DataError where it is not an object of entries with the numbers 0 .. n - 1
  // that has a blank.
  static Vocabulary read(const std::filesystem::path& path);

  // Writes what read() reads. Throws DataError where it cannot.
  void write(const std::filesystem::path& path) const;

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int32_t blank() const { return blank_; }
  // By their numbers, as they are written in the file.
  const std::vector<std::string>& entries() const { return entries_; }

  Encoded encode(std::string_view text) const;
  // Whether each of these characters has a label.
  bool has_all(std::span<const char32_t> characters) const;

  // The text of labels; blanks and other entries in brackets are left out. Labels must be of the
  // vocabulary.
  std::string decode(std::span<const int32_t> labels) const;

 private:
  explicit Vocabulary(std::vector<std::string> entries, int32_t blank);

  std::vector<std::string> entries_;
  int32_t blank_ = 0;
  // Characters as they stand in a text.
  std::map<std::string, int32_t, std::less<>> labels_;
};

}  // namespace sotto::data
