// Settings in the files next to a vocab.json, read as transformers 5.17 reads them for its
// Wav2Vec2CTCTokenizer: tokenizer_config.json; if that lists no added tokens also
// special_tokens_map.json, added_tokens.json and tokenizer.json; and from config.json the blank and
// the size of the head.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sotto::data {

// A token that is matched in texts, in addition to those of vocab.json or one of them.
struct AddedToken {
  std::string text;
  int64_t number = 0;
  // Whether the spaces before and after it belong to it.
  bool strips_left = false;
  bool strips_right = false;
  // Whether it only matches with spaces around it.
  bool is_single_word = false;
};

struct TokenizerSettings {
  // pad_token, the blank of CTC; std::nullopt if it is null. names_pad: whether a file sets it;
  // otherwise it is the default of transformers.
  std::optional<std::string> pad = "<pad>";
  bool names_pad = false;
  std::optional<std::string> unknown = "<unk>";
  std::optional<std::string> begin = "<s>";
  std::optional<std::string> end = "</s>";
  // Special tokens under other names, such as mask_token, and those without a name.
  std::vector<std::pair<std::string, std::string>> named = {};
  std::vector<std::string> extra = {};
  // The entry for the space between words, and its text when decoded.
  std::string delimiter = "|";
  std::string space = " ";
  // Texts are encoded in upper case and decoded in lower case.
  bool lower_case = false;
  // Spaces before punctuation are removed from decoded texts.
  bool cleans_up = false;
  // Selects one of the vocabularies of a vocab.json with several (target_lang).
  std::string language = {};
  std::vector<AddedToken> added = {};

  // From a config.json that describes a network with a CTC head: pad_token_id, which is the blank,
  // and vocab_size, the entries of the head.
  std::optional<int64_t> head_blank = {};
  int64_t head_size = 0;

  // Returns all special tokens, each once, in the order in which transformers numbers those that a
  // vocabulary lacks.
  std::vector<std::string> special_tokens() const;
};

// Reads the settings of a folder; std::nullopt if it has no files of transformers, is a
// checkpoint with our own vocabulary, or one of a Parakeet, whose files say what vocab.json says.
// Throws DataError, which names file and key, where they cannot be read or require unsupported
// features.
std::optional<TokenizerSettings> read_tokenizer_settings(const std::filesystem::path& folder);

// Reads the head's settings from config.json in any folder: for a checkpoint with our own
// vocabulary.
TokenizerSettings read_head_settings(const std::filesystem::path& folder);

// Returns tokenizer_config.json with these settings.
nlohmann::ordered_json tokenizer_config_json(const TokenizerSettings& settings);

}  // namespace sotto::data
