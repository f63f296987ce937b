// A small byte-level BPE: all 256 bytes, a few merges, and Whisper's special tokens where a test
// wants them.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sotto/core/utf8.h"
#include "sotto/data/text/byte_bpe_files.h"
#include "support/temp_folder.h"

namespace sotto::test {

// Merges of letters, in which " " is written as "Ġ".
inline const std::vector<std::pair<std::string, std::string>>& tiny_merges() {
  static const std::vector<std::pair<std::string, std::string>> merges = {
      {"a", "b"}, {"ab", "c"}, {"b", "c"}, {"Ġ", "a"}, {"Ġ", "ab"}, {"Å", "¼"}};
  return merges;
}

// The entries of vocab.json: the bytes are 0 to 255, then the results of merges.
inline nlohmann::json tiny_vocabulary() {
  nlohmann::json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    std::string letter;
    append_utf8(letter, data::letter_of_byte(static_cast<unsigned char>(byte)));
    vocabulary[letter] = byte;
  }
  for (const auto& [first, second] : tiny_merges()) vocabulary[first + second] = vocabulary.size();
  return vocabulary;
}

inline std::string tiny_merge_lines() {
  std::string lines = "#version: 0.2\n";
  for (const auto& [first, second] : tiny_merges()) lines += first + " " + second + "\n";
  return lines;
}

// Special tokens of a multilingual Whisper with three languages, in their order.
inline const std::vector<std::string>& tiny_whisper_tokens() {
  static const std::vector<std::string> tokens = {
      "<|endoftext|>",   "<|startoftranscript|>", "<|en|>",          "<|pl|>",
      "<|ms|>",          "<|translate|>",         "<|transcribe|>",  "<|startoflm|>",
      "<|startofprev|>", "<|nocaptions|>",        "<|notimestamps|>"};
  return tokens;
}

// Writes vocab.json and merges.txt; returns the path of the first.
inline std::filesystem::path write_byte_bpe(const TempFolder& folder) {
  folder.write("merges.txt", tiny_merge_lines());
  return folder.write("vocab.json", tiny_vocabulary().dump());
}

// The same with added_tokens.json.
inline std::filesystem::path write_tiny_whisper(const TempFolder& folder) {
  nlohmann::json added;
  const size_t first = tiny_vocabulary().size();
  for (const std::string& token : tiny_whisper_tokens()) added[token] = first + added.size();
  folder.write("added_tokens.json", added.dump());
  folder.write("normalizer.json", R"({"colour": "color"})");
  return write_byte_bpe(folder);
}

// The vocabulary as a tokenizer.json.
inline nlohmann::json tiny_tokenizer_json() {
  nlohmann::json merges = nlohmann::json::array();
  for (const auto& [first, second] : tiny_merges()) merges.push_back({first, second});
  const nlohmann::json end = {{"id", 262}, {"content", "<|endoftext|>"}, {"special", true}};
  return {{"version", "1.0"},
          {"added_tokens", nlohmann::json::array({end})},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", tiny_vocabulary()}, {"merges", merges}}}};
}

}  // namespace sotto::test
