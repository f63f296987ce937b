// Byte-level BPE, as in GPT-2 and Whisper: a text is split into words by a fixed pattern, the
// UTF-8 bytes of a word are its first entries, and pairs of entries are merged in the order of a
// list. Every text can be encoded, and decoding returns it.
//
//   const ByteBpe tokenizer = ByteBpe::read("whisper-tiny/vocab.json");
//   tokenizer.decode(tokenizer.encode(" zażółć", unknown));
//
// Special tokens are never found in a text: the characters `<|en|>` of a transcript are characters.
// The classes of characters in the pattern need utf8proc (unicode.h).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sotto/data/text/byte_bpe_files.h"

namespace sotto::data {

class ByteBpe {
 public:
  // Throws ConfigError in a build without utf8proc.
  explicit ByteBpe(ByteBpeFiles files);
  // Reads a vocab.json with its merges.txt, or a tokenizer.json. Throws as read_byte_bpe(), too.
  static ByteBpe read(const std::filesystem::path& path);

  // Numbers are found by views of the entries, which stay in place when this moves.
  ByteBpe(ByteBpe&&) = default;
  ByteBpe& operator=(ByteBpe&&) = delete;
  ByteBpe(const ByteBpe&) = delete;
  ByteBpe& operator=(const ByteBpe&) = delete;
  ~ByteBpe() = default;

  // Writes the files that were read. Throws DataError where they cannot be written.
  void write(const std::filesystem::path& folder) const;
  // Returns the content of a file that was read, such as normalizer.json; null if there was none.
  const std::string* content(const std::string& name) const;

  // One more than the largest number: numbers may be missing.
  int64_t size() const { return std::ssize(files_.entries); }
  // Returns the number of an entry as it is written in the files.
  std::optional<int32_t> find(std::string_view entry) const;
  // Returns an entry as it is written in the files; empty if the number has none.
  const std::string& entry(int32_t number) const;
  bool is_special(int32_t number) const { return files_.is_special[static_cast<size_t>(number)]; }
  // pad_token and eos_token of the files, or the usual ones.
  std::optional<int32_t> padding() const { return files_.padding; }
  std::optional<int32_t> end() const { return files_.end; }
  // Hash of what determines labels and texts.
  uint64_t fingerprint() const;

  // Returns the labels of a text, which must be UTF-8. Characters with a byte that the vocabulary
  // lacks are added to `unknown`, each once, and such bytes have no label; a vocabulary of all 256
  // bytes has none. Takes time proportional to n log n for n bytes. Thread-safe.
  std::vector<int32_t> encode(std::string_view text, std::vector<std::string>& unknown) const;

  // Returns the bytes of one label, which may be a part of a character; empty for special tokens.
  std::string_view piece(int32_t label) const { return pieces_[static_cast<size_t>(label)]; }
  // Returns the text of labels, which must be below size(). Parts of characters become U+FFFD.
  std::string decode(std::span<const int32_t> labels) const;

 private:
  struct Merge {
    size_t rank;
    int32_t result;
  };

  const Merge* merge_of(int32_t first, int32_t second) const;
  void encode_word(std::string_view word, std::vector<int32_t>& labels) const;
  void note_unknown(std::string_view text, std::vector<std::string>& unknown) const;

  ByteBpeFiles files_;
  std::unordered_map<std::string_view, int32_t> numbers_;
  // Bytes of each label.
  std::vector<std::string> pieces_;
  // The entry of each byte; below 0 if there is none.
  std::array<int32_t, 256> bytes_{};
  bool has_all_bytes_ = true;
  // By the numbers of both entries.
  std::unordered_map<uint64_t, Merge> merges_;
};

// Splits a text, which must be UTF-8, as GPT-2 does before it merges: contractions, letters,
// numbers, others, each with a space before it, and white space.
std::vector<std::string_view> split_words(std::string_view text);

}  // namespace sotto::data
