#include "sotto/data/text/tokenizer_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sotto/core/config/json_settings.h"
#include "sotto/core/error.h"
#include "sotto/core/files/file_list.h"
#include "sotto/core/files/json_object.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kSpecialTokens = "special_tokens_map.json";
constexpr const char* kAddedTokens = "added_tokens.json";
constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kModelConfig = "config.json";
constexpr const char* kDecoder = "added_tokens_decoder";

// The current name of the tokenizer, and an older one.
constexpr std::array kClasses = {std::string_view("Wav2Vec2CTCTokenizer"),
                                 std::string_view("Wav2Vec2Tokenizer")};
// The tokenizer of a Parakeet, whose files are for transformers alone: they say in its way what
// vocab.json says.
constexpr std::string_view kOfParakeet = "ParakeetTokenizer";
// Special tokens with their own field in TokenizerSettings.
constexpr std::array kOwnNames = {std::string_view("pad_token"), std::string_view("unk_token"),
                                  std::string_view("bos_token"), std::string_view("eos_token"),
                                  std::string_view("word_delimiter_token")};

JsonSettings open_settings(const fs::path& path) {
  return {path, fmt::format("reading the tokenizer of {}", path.string())};
}

// A token is a text, or an object with its content.
std::optional<std::string> text_of(const nlohmann::json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token.at("content").is_string())
    return token.at("content").get<std::string>();
  return std::nullopt;
}

std::string token_of(const JsonSettings& file, const std::string& key,
                     const nlohmann::json& value) {
  const std::optional<std::string> text = text_of(value);
  if (!text || text->empty()) file.refuse(fmt::format("\"{}\": {}", key, shown(value)), "a token");
  return *text;
}

void take_extra(const JsonSettings& file, const char* key, TokenizerSettings& settings) {
  if (!file.has(key)) return;
  const nlohmann::json& value = file.values().at(key);
  if (value.is_object()) {
    for (const auto& [name, token] : value.items())
      settings.named.emplace_back(name, token_of(file, name, token));
    return;
  }
  if (!value.is_array()) file.refuse(file.shown(key), "a list of tokens");
  for (const nlohmann::json& token : value) {
    std::string text = token_of(file, key, token);
    if (std::ranges::find(settings.extra, text) == settings.extra.end())
      settings.extra.push_back(std::move(text));
  }
}

// Reads pad_token and the others from tokenizer_config.json or special_tokens_map.json.
void take_special_tokens(const JsonSettings& file, TokenizerSettings& settings) {
  const auto take = [&](const char* key, std::optional<std::string>& token) {
    if (!file.names(key)) return false;
    token =
        file.has(key) ? std::optional(token_of(file, key, file.values().at(key))) : std::nullopt;
    return true;
  };
  settings.names_pad = take("pad_token", settings.pad) || settings.names_pad;
  take("unk_token", settings.unknown);
  take("bos_token", settings.begin);
  take("eos_token", settings.end);
  for (const auto& [key, value] : file.values().items()) {
    const bool is_own = std::ranges::find(kOwnNames, key) != kOwnNames.end();
    if (is_own || !key.ends_with("_token") || !text_of(value)) continue;
    std::erase_if(settings.named, [&](const auto& named) { return named.first == key; });
    settings.named.emplace_back(key, token_of(file, key, value));
  }
  take_extra(
      file,
      file.names("extra_special_tokens") ? "extra_special_tokens" : "additional_special_tokens",
      settings);
}

AddedToken added_token(const JsonSettings& file, const nlohmann::json& token, int64_t number) {
  const auto flag = [&](const char* key) {
    return token.is_object() && token.contains(key) && token.at(key).is_boolean() &&
           token.at(key).get<bool>();
  };
  return {.text = token_of(file, "content", token),
          .number = number,
          .strips_left = flag("lstrip"),
          .strips_right = flag("rstrip"),
          .is_single_word = flag("single_word")};
}

int64_t number_of(const JsonSettings& file, const std::string& text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end)
    file.refuse(fmt::format("an added token with the number '{}'", text), "a whole number");
  return number;
}

// If tokenizer_config.json has them, transformers does not read them from other files.
void take_decoder(const JsonSettings& file, TokenizerSettings& settings) {
  const nlohmann::json& decoder = file.values().at(kDecoder);
  if (!decoder.is_object()) file.refuse(file.shown(kDecoder), "an object of tokens");
  for (const auto& [number, token] : decoder.items())
    settings.added.push_back(added_token(file, token, number_of(file, number)));
}

void take_older_files(const fs::path& folder, TokenizerSettings& settings) {
  if (fs::exists(folder / kSpecialTokens))
    take_special_tokens(open_settings(folder / kSpecialTokens), settings);
  if (fs::exists(folder / kAddedTokens)) {
    const JsonSettings file = open_settings(folder / kAddedTokens);
    for (const auto& [text, number] : file.values().items()) {
      if (!number.is_number_integer())
        file.refuse(fmt::format("\"{}\": {}", text, shown(number)), "a whole number");
      settings.added.push_back(added_token(file, text, number.get<int64_t>()));
    }
  }
  if (!fs::exists(folder / kTokenizerJson)) return;
  const JsonSettings file = open_settings(folder / kTokenizerJson);
  if (!file.has("added_tokens")) return;
  const nlohmann::json& tokens = file.values().at("added_tokens");
  for (const nlohmann::json& token : tokens) {
    if (!token.is_object() || !token.contains("id") || !token.at("id").is_number_integer())
      file.refuse(fmt::format("added_tokens: {}", shown(token)), "tokens with their id");
    settings.added.push_back(added_token(file, token, token.at("id").get<int64_t>()));
  }
}

void check_class(const JsonSettings& file) {
  const auto name = file.get<std::string>("tokenizer_class", std::string(kClasses.front()));
  if (std::ranges::find(kClasses, name) != kClasses.end()) return;
  file.refuse(file.shown("tokenizer_class"),
              "Wav2Vec2CTCTokenizer, the only supported tokenizer of transformers");
}

void take_tokenizer_config(const JsonSettings& file, TokenizerSettings& settings) {
  check_class(file);
  if (file.get("split_special_tokens", false))
    file.refuse(file.shown("split_special_tokens"), "false");
  take_special_tokens(file, settings);
  if (file.names("word_delimiter_token")) {
    const nlohmann::json& value = file.values().at("word_delimiter_token");
    if (value.is_null())
      file.refuse(file.shown("word_delimiter_token"), "the entry that stands for the space");
    settings.delimiter = token_of(file, "word_delimiter_token", value);
  }
  settings.space = file.get<std::string>("replace_word_delimiter_char", " ");
  settings.lower_case = file.get("do_lower_case", false);
  settings.cleans_up = file.get("clean_up_tokenization_spaces", false);
  settings.language = file.get<std::string>("target_lang", "");
}

bool describes_head(const JsonSettings& config) {
  if (!config.has("architectures")) return false;
  const nlohmann::json& names = config.values().at("architectures");
  return names.is_array() && std::ranges::any_of(names, [](const nlohmann::json& name) {
           return name.is_string() && name.get<std::string>().ends_with("ForCTC");
         });
}

void take_head(const JsonSettings& config, TokenizerSettings& settings) {
  if (!describes_head(config)) return;
  if (config.has("pad_token_id")) settings.head_blank = config.get("pad_token_id", int64_t{0});
  settings.head_size = config.get("vocab_size", int64_t{0});
}

bool is_for_parakeet(const fs::path& folder) {
  return fs::exists(folder / kTokenizerConfig) &&
         open_settings(folder / kTokenizerConfig).get<std::string>("tokenizer_class", "") ==
             kOfParakeet;
}

std::optional<JsonSettings> model_config_of(const fs::path& folder) {
  if (!fs::exists(folder / kModelConfig)) return std::nullopt;
  JsonSettings config = open_settings(folder / kModelConfig);
  // A run's configuration may have the same name.
  if (!config.has("model_type")) return std::nullopt;
  return config;
}

}  // namespace

std::vector<std::string> TokenizerSettings::special_tokens() const {
  std::vector<std::string> tokens;
  const auto add = [&](const std::string& token) {
    if (std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
  };
  const auto add_named = [&](std::string_view key) {
    for (const auto& [name, token] : named) {
      if (name == key) add(token);
    }
  };
  if (begin) add(*begin);
  if (end) add(*end);
  if (unknown) add(*unknown);
  add_named("sep_token");
  if (pad) add(*pad);
  add_named("cls_token");
  add_named("mask_token");
  for (const auto& [name, token] : named) add(token);
  add(delimiter);
  for (const std::string& token : extra) add(token);
  return tokens;
}

std::optional<TokenizerSettings> read_tokenizer_settings(const fs::path& folder) {
  if (is_for_parakeet(folder)) return std::nullopt;
  const auto has = [&](const char* name) { return fs::exists(folder / name); };
  const std::optional<JsonSettings> config = model_config_of(folder);
  const bool has_files =
      has(kTokenizerConfig) || has(kSpecialTokens) || has(kAddedTokens) || has(kTokenizerJson);
  // Our checkpoints have a config.json too, but store their tokenizer elsewhere.
  if (!has_files && (!config || has(kStateFile))) return std::nullopt;
  TokenizerSettings settings;
  bool has_decoder = false;
  if (has(kTokenizerConfig)) {
    const JsonSettings file = open_settings(folder / kTokenizerConfig);
    take_tokenizer_config(file, settings);
    has_decoder = file.has(kDecoder);
    if (has_decoder) take_decoder(file, settings);
  }
  if (!has_decoder) take_older_files(folder, settings);
  if (config) take_head(*config, settings);
  return settings;
}

TokenizerSettings read_head_settings(const fs::path& folder) {
  TokenizerSettings settings;
  if (const std::optional<JsonSettings> config = model_config_of(folder))
    take_head(*config, settings);
  return settings;
}

nlohmann::ordered_json tokenizer_config_json(const TokenizerSettings& settings) {
  using nlohmann::ordered_json;
  const auto or_null = [](const std::optional<std::string>& token) {
    return token ? ordered_json(*token) : ordered_json(nullptr);
  };
  ordered_json config = {{"tokenizer_class", kClasses.front()},
                         {"pad_token", or_null(settings.pad)},
                         {"unk_token", or_null(settings.unknown)},
                         {"bos_token", or_null(settings.begin)},
                         {"eos_token", or_null(settings.end)},
                         {"word_delimiter_token", settings.delimiter},
                         {"replace_word_delimiter_char", settings.space},
                         {"do_lower_case", settings.lower_case}};
  if (settings.cleans_up) config["clean_up_tokenization_spaces"] = true;
  for (const auto& [name, token] : settings.named) config[name] = token;
  if (!settings.extra.empty()) config["extra_special_tokens"] = settings.extra;
  if (settings.added.empty()) return config;
  ordered_json& decoder = config[kDecoder] = ordered_json::object();
  for (const AddedToken& token : settings.added) {
    decoder[fmt::format("{}", token.number)] = {{"content", token.text},
                                                {"lstrip", token.strips_left},
                                                {"normalized", false},
                                                {"rstrip", token.strips_right},
                                                {"single_word", token.is_single_word},
                                                {"special", false}};
  }
  return config;
}

}  // namespace sotto::data
