// A vocabulary of characters, in the form of wav2vec2's vocab.json: {"<pad>": 0, "|": 1, "a": 2}.
// `<pad>` (or `[PAD]`) is the blank of CTC and `|` stands for the space between words. A character
// is a code point of UTF-8. `<unk>` (or `[UNK]`) stands for characters that are not there; it and
// other entries in angle or square brackets, such as </s>, leave no text when decoded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

// The characters of texts that come one after the other.
class CharacterSet {
 public:
  // Throws DataError where the text is not UTF-8.
  void add(std::string_view text);

 private:
  friend class Vocabulary;

  // Well-formed UTF-8 sorts by its bytes as by its code points.
  std::set<std::string, std::less<>> characters_;
};

class Vocabulary {
 public:
  struct Encoded {
    std::vector<int32_t> labels;
    // Characters of the text that are not in the vocabulary, each once, in their order. Labels have
    // <unk> in their place where the vocabulary has it, else nothing.
    std::vector<std::string> unknown;
  };

  // The blank, the delimiter, and every character of the texts in the order of code points. A `|`
  // is not taken in: it could not be told from a space.
  static Vocabulary from_texts(const std::vector<std::string_view>& texts);
  // The same of a set; with has_unknown also <unk>, for what other texts have.
  static Vocabulary from_characters(const CharacterSet& characters, bool has_unknown = false);

  // A vocab.json. Throws DataError where it is not an object of entries with the numbers 0 .. n - 1
  // that has a blank.
  static Vocabulary read(const std::filesystem::path& path);

  // Writes what read() reads. Throws DataError where it cannot.
  void write(const std::filesystem::path& path) const;

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int32_t blank() const { return blank_; }
  std::optional<int32_t> unknown() const { return unknown_; }
  // By their numbers, as they are written in the file.
  const std::vector<std::string>& entries() const { return entries_; }
  // The number of an entry as it is written in the file; none where it is not there.
  std::optional<int32_t> find(std::string_view entry) const;

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
  std::optional<int32_t> unknown_;
  // Characters as they stand in a text.
  std::map<std::string, int32_t, std::less<>> labels_;
};

}  // namespace sotto::data
