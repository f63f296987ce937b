// A vocabulary of characters, in the format of wav2vec2's vocab.json: {"<pad>": 0, "|": 1, "a": 2}.
// A character is a code point of UTF-8. Entries of several characters are matched in texts before
// single ones, the longest first, and the spaces around them belong to them, as in transformers.
//
// Without files of transformers next to it, `<pad>` (or `[PAD]`, `<blank>`) is the blank of CTC and
// `|` stands for the space between words; `<unk>` (or `[UNK]`) stands for unknown characters; it
// and other entries in angle or square brackets, such as </s>, are not matched in texts and have no
// text when decoded. With such files, their settings apply (tokenizer_settings.h).
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

#include "sotto/data/text/token_trie.h"
#include "sotto/data/text/tokenizer_settings.h"

namespace sotto::data {

// Collects the characters of texts.
class CharacterSet {
 public:
  // Adds the characters of a text. Throws DataError where it is not UTF-8.
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
    // Characters of the text that are not in the vocabulary, each once, in order, and tokens that
    // cannot be labels: the blank, and those beyond the network's head. Labels have <unk> in their
    // place if the vocabulary has it, otherwise nothing.
    std::vector<std::string> unknown;
  };

  // Builds a vocabulary of the blank, the delimiter, and every character of the texts in the order
  // of code points. A `|` is excluded: it could not be distinguished from a space.
  static Vocabulary from_texts(const std::vector<std::string_view>& texts);
  // Builds a vocabulary from a set of characters; with has_unknown it includes <unk>, for
  // characters of other texts.
  static Vocabulary from_characters(const CharacterSet& characters, bool has_unknown = false);

  // Reads a file of entries and numbers; if it is called vocab.json, with the settings of the files
  // next to it. Throws DataError where it is not an object of entries with distinct numbers, where
  // it has no blank, or where the files contradict each other; ConfigError where they require
  // unsupported features.
  static Vocabulary read(const std::filesystem::path& path);

  // Writes the input of read(): the file, and tokenizer_config.json next to it if there were
  // settings. Throws DataError where it cannot be written.
  void write(const std::filesystem::path& path) const;
  // Returns the contents of the file.
  std::string to_json() const;

  // Whether it was read with files of transformers next to it.
  bool has_settings() const { return settings_.has_value(); }
  // Returns settings for the tokenizer_config.json of transformers.
  TokenizerSettings settings() const;

  // One more than the largest number: numbers may be missing. With a network at least the entries
  // of its head.
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  // Adds numbers without entries up to this size.
  void widen(int64_t size);
  int32_t blank() const { return blank_; }
  std::optional<int32_t> unknown() const { return unknown_; }
  // Entries by number, as written in the file; empty if a number has none.
  const std::vector<std::string>& entries() const { return entries_; }
  // Returns the number of an entry as written in the file; std::nullopt if there is none.
  std::optional<int32_t> find(std::string_view entry) const;

  Encoded encode(std::string_view text) const;
  // Returns whether each of these characters is one label in every text of them.
  bool has_all(std::span<const char32_t> characters) const;

  // Returns the text of labels; blanks and other entries without text are skipped. Labels must be
  // in the vocabulary.
  std::string decode(std::span<const int32_t> labels) const;

  // Returns a text as decode() would write it if all of its characters were known, for example in
  // lower case if that is a setting. A reference for hypotheses.
  std::string decoded_form(std::string_view text) const;

  // Returns descriptions of settings that change encoding or decoding, beyond the list of entries.
  std::vector<std::string> traits() const;

 private:
  // A token that is matched as a whole.
  struct Token {
    int64_t number = 0;
    bool strips_left = false;
    bool strips_right = false;
    bool is_single_word = false;
  };

  explicit Vocabulary(std::vector<std::string> entries, int32_t blank);
  Vocabulary(std::vector<std::string> entries, TokenizerSettings settings,
             const std::filesystem::path& path);

  // Assigns numbers to the added tokens of the settings, and entries if the head has them.
  void insert_added(const std::filesystem::path& path);
  // Assigns the next numbers to special tokens that are in none of the files.
  void insert_special();
  void choose_blank(const std::filesystem::path& path);
  void add_token(const std::string& text, const Token& token);
  void set_texts(std::span<const std::string> special);
  // Returns the pieces of a text, with the spaces that tokens take from their neighbours removed.
  std::vector<std::u32string> pieces_of(std::string_view text) const;
  void encode_token(const Token& token, std::u32string_view piece, Encoded& encoded) const;
  void encode_character(char32_t code, Encoded& encoded) const;
  void note_unknown(std::string_view what, Encoded& encoded) const;
  // Applies the settings for decoded texts.
  std::string finish_text(std::string text) const;

  std::vector<std::string> entries_;
  // Whether an entry is an added token, which is not in vocab.json.
  std::vector<bool> is_added_;
  // The decoded text of each label.
  std::vector<std::string> texts_;
  int32_t blank_ = 0;
  std::optional<int32_t> unknown_;
  // Single characters as they appear in a text.
  std::map<std::string, int32_t, std::less<>> labels_;
  // All other tokens.
  std::map<std::u32string, Token, std::less<>> tokens_;
  TokenTrie trie_;
  // Absent if there were no files of transformers next to it.
  std::optional<TokenizerSettings> settings_;
};

}  // namespace sotto::data
