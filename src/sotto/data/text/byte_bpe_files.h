// The files of a byte-level BPE, as GPT-2 and Whisper are published: vocab.json with merges.txt, or
// a tokenizer.json of Hugging Face's tokenizers; with the special tokens that they and the files
// next to them name (tokenizer_config.json, special_tokens_map.json, added_tokens.json).
//
// Entries are written in letters: each of the 256 bytes is one character, which is the byte itself
// if it can be printed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

// The entries `first` and `second`, next to each other, become `result`.
struct BpeMerge {
  int32_t first = 0;
  int32_t second = 0;
  int32_t result = 0;
};

struct ByteBpeFiles {
  // Entries by number, as they are written; empty if a number has none.
  std::vector<std::string> entries;
  // Whether an entry is a special token: no text is encoded as one, and it has no text.
  std::vector<bool> is_special;
  // The pairs that are merged, the first of them first.
  std::vector<BpeMerge> merges;
  // pad_token and eos_token, if they are entries.
  std::optional<int32_t> padding = {};
  std::optional<int32_t> end = {};
  // Whether a text that does not begin with a space is given one (add_prefix_space).
  bool adds_space = false;
  // All files as they were read, by name, and others that belong to them (normalizer.json,
  // generation_config.json).
  std::map<std::string, std::string> contents = {};
};

// Returns whether a file is such a tokenizer: a vocab.json next to a merges.txt, or a
// tokenizer.json with byte-level parts. False if there is no such file; throws DataError where a
// JSON file is no text.
bool is_byte_bpe(const std::filesystem::path& path);

// Reads the files. Throws DataError where they are broken or contradict each other, ConfigError
// where they require unsupported features.
ByteBpeFiles read_byte_bpe(const std::filesystem::path& path);

// Returns the letter of a byte.
char32_t letter_of_byte(unsigned char byte);
// Returns the bytes of an entry; an entry with other characters is its own bytes.
std::string bytes_of_entry(std::string_view entry);

}  // namespace sotto::data
