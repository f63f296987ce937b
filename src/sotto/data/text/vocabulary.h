// A vocabulary of characters, in the form of wav2vec2's vocab.json: {"<pad>": 0, "|": 1, "a": 2}.
// A character is a code point of UTF-8. Entries of several characters are matched in texts before
// single ones, the longest first, and the spaces around them belong to them, as transformers does
// it.
//
// Without files of transformers beside it, `<pad>` (or `[PAD]`, `<blank>`) is the blank of CTC and
// `|` stands for the space between words; `<unk>` (or `[UNK]`) stands for characters that are not
// there; it and other entries in angle or square brackets, such as </s>, are not matched in texts
// and leave no text when decoded. With them, all of this is as they say (tokenizer_settings.h).
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
    // Characters of the text that are not in the vocabulary, each once, in their order, and tokens
    // that cannot be labels: the blank, and those beyond the network's head. Labels have <unk> in
    // their place where the vocabulary has it, else nothing.
    std::vector<std::string> unknown;
  };

  // The blank, the delimiter, and every character of the texts in the order of code points. A `|`
  // is not taken in: it could not be told from a space.
  static Vocabulary from_texts(const std::vector<std::string_view>& texts);
  // The same of a set; with has_unknown also <unk>, for what other texts have.
  static Vocabulary from_characters(const CharacterSet& characters, bool has_unknown = false);

  // A file of entries and numbers; one that is called vocab.json with the settings of the files
  // beside it. Throws DataError where it is not an object of entries with numbers of their own,
  // where it has no blank, or where the files contradict each other; ConfigError where they ask for
  // what there is not here.
  static Vocabulary read(const std::filesystem::path& path);

  // Writes what read() reads: the file, and tokenizer_config.json beside it where there were
  // settings. Throws DataError where it cannot.
  void write(const std::filesystem::path& path) const;

  // For the tokenizer_config.json of transformers.
  TokenizerSettings settings() const;

  // One more than the largest number: numbers may be missing. With a network beside it at least the
  // entries of its head.
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  // Adds numbers without entries where there are fewer than these.
  void widen(int64_t size);
  int32_t blank() const { return blank_; }
  std::optional<int32_t> unknown() const { return unknown_; }
  // By their numbers, as they are written in the file; empty where a number has none.
  const std::vector<std::string>& entries() const { return entries_; }
  // The number of an entry as it is written in the file; none where it is not there.
  std::optional<int32_t> find(std::string_view entry) const;

  Encoded encode(std::string_view text) const;
  // Whether each of these characters is one label in every text of them.
  bool has_all(std::span<const char32_t> characters) const;

  // The text of labels; blanks and other entries without text are left out. Labels must be of the
  // vocabulary.
  std::string decode(std::span<const int32_t> labels) const;

  // A text as decode() would write it, were all of its characters known: in lower case where that
  // is a setting, and so on. What a hypothesis can be compared with.
  std::string decoded_form(std::string_view text) const;

  // What makes it encode or decode otherwise than the list of its entries says by itself.
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

  // Gives the added tokens of the settings their numbers, and entries where the head has them.
  void place_added(const std::filesystem::path& path);
  // The same of special tokens that are in none of the files: they get the next numbers.
  void place_special();
  void choose_blank(const std::filesystem::path& path);
  void add_token(const std::string& text, const Token& token);
  void set_texts(std::span<const std::string> special);
  // The pieces of a text, with what tokens take from their neighbours.
  std::vector<std::u32string> pieces_of(std::string_view text) const;
  void encode_token(const Token& token, std::u32string_view piece, Encoded& encoded) const;
  void encode_character(char32_t code, Encoded& encoded) const;
  void note_unknown(std::string_view what, Encoded& encoded) const;
  // Applies what the settings ask of a decoded text.
  std::string finish_text(std::string text) const;

  std::vector<std::string> entries_;
  // Whether an entry is an added token, which is not in vocab.json.
  std::vector<bool> is_added_;
  // What each label leaves in a text.
  std::vector<std::string> texts_;
  int32_t blank_ = 0;
  std::optional<int32_t> unknown_;
  // Single characters as they stand in a text.
  std::map<std::string, int32_t, std::less<>> labels_;
  // All others.
  std::map<std::u32string, Token, std::less<>> tokens_;
  TokenTrie trie_;
  // Absent where no files of transformers were beside it.
  std::optional<TokenizerSettings> settings_;
};

}  // namespace sotto::data
