#include "sotto/data/text/byte_bpe_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/json_object.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/utf8.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kVocabularyFile = "vocab.json";
constexpr const char* kMergesFile = "merges.txt";
constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kConfigFile = "tokenizer_config.json";
constexpr const char* kSpecialFile = "special_tokens_map.json";
constexpr const char* kAddedFile = "added_tokens.json";
// The map of spellings of Whisper's normaliser for English.
constexpr const char* kSpellingsFile = "normalizer.json";
// Numbers of tokens with which transformers generates texts.
constexpr const char* kGenerationFile = "generation_config.json";

// Far more than any published vocabulary has.
constexpr int64_t kMaxEntries = 1 << 20;
constexpr size_t kByteValues = 256;

// Returns whether a byte is its own letter: the printable ones of Latin-1.
bool is_own_letter(size_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<char32_t, kByteValues> make_letters() {
  std::array<char32_t, kByteValues> letters{};
  char32_t next = kByteValues;
  for (size_t byte = 0; byte < kByteValues; ++byte)
    letters[byte] = is_own_letter(byte) ? static_cast<char32_t>(byte) : next++;
  return letters;
}

const std::array<char32_t, kByteValues>& byte_letters() {
  static const std::array<char32_t, kByteValues> letters = make_letters();
  return letters;
}

// `<|en|>`, the form of special tokens of GPT-2 and Whisper.
bool has_special_form(std::string_view entry) {
  return entry.size() > 4 && entry.starts_with("<|") && entry.ends_with("|>");
}

// `<pad>` and `[PAD]`, too.
bool has_brackets(std::string_view entry) {
  return entry.size() > 2 && ((entry.front() == '<' && entry.back() == '>') ||
                              (entry.front() == '[' && entry.back() == ']'));
}

// A token is a text, or an object with its content.
std::optional<std::string> content_of(const json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token.at("content").is_string())
    return token.at("content").get<std::string>();
  return std::nullopt;
}

bool flag_of(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && object.at(key) == true;
}

const json* find_object(const json& parent, const char* key) {
  if (!parent.is_object() || !parent.contains(key) || !parent.at(key).is_object()) return nullptr;
  return &parent.at(key);
}

std::string type_of(const json& part) {
  return part.is_object() && part.contains("type") && part.at("type").is_string()
             ? part.at("type").get<std::string>()
             : std::string();
}

// Returns the ByteLevel part of a pre-tokenizer, which may be in a list.
const json* byte_level_of(const json& pre_tokenizer) {
  if (type_of(pre_tokenizer) == "ByteLevel") return &pre_tokenizer;
  if (type_of(pre_tokenizer) != "Sequence" || !pre_tokenizer.contains("pretokenizers"))
    return nullptr;
  const json& parts = pre_tokenizer.at("pretokenizers");
  if (!parts.is_array()) return nullptr;
  const auto found =
      std::ranges::find_if(parts, [](const json& part) { return type_of(part) == "ByteLevel"; });
  return found == parts.end() ? nullptr : &*found;
}

bool is_byte_level_json(const fs::path& path) {
  const json tokenizer = json::parse(read_text_file(path), nullptr, /*allow_exceptions=*/false);
  const json* model = find_object(tokenizer, "model");
  const json* pre_tokenizer = find_object(tokenizer, "pre_tokenizer");
  return model != nullptr && model->contains("merges") && pre_tokenizer != nullptr &&
         byte_level_of(*pre_tokenizer) != nullptr;
}

// The files on their way to tables.
class Reader {
 public:
  explicit Reader(const fs::path& path) : folder_(path.parent_path()), attempted_(path) {}

  ByteBpeFiles read(const fs::path& path) {
    if (path.filename() == kVocabularyFile) {
      read_vocabulary(object_of(kVocabularyFile));
      read_merge_lines(content(kMergesFile));
      if (fs::exists(folder_ / kTokenizerFile)) read_added_list(object_of(kTokenizerFile));
    } else {
      read_tokenizer(path);
    }
    read_companions();
    finish();
    return std::move(files_);
  }

 private:
  [[noreturn]] void refuse(std::string found, std::string expected) const {
    throw DataError({.attempted = fmt::format("reading the tokenizer {}", attempted_.string()),
                     .found = std::move(found),
                     .expected = std::move(expected),
                     .hint = "If it was copied or downloaded, copy or download it again."});
  }

  [[noreturn]] void refuse_feature(std::string found, std::string expected) const {
    throw ConfigError(
        {.attempted = fmt::format("reading the tokenizer {}", attempted_.string()),
         .found = std::move(found),
         .expected = std::move(expected),
         .hint = "Name another with --set data.tokenizer=FILE; the head is then new."});
  }

  const std::string& content(const char* name) {
    auto& text = files_.contents[name];
    if (text.empty()) text = read_text_file(folder_ / name);
    return text;
  }

  json object_of(const char* name) {
    return parse_json_object(content(name),
                             {.path = folder_ / name, .part = "it", .expected = "a JSON object"});
  }

  // --- the model

  void add_entry(const std::string& text, const json& number) {
    const int64_t n = number.is_number_integer() ? number.get<int64_t>() : -1;
    if (n < 0 || n >= kMaxEntries)
      refuse(fmt::format("the entry '{}' with the number {}", text, shown(number)),
             fmt::format("a whole number from 0 to {}", kMaxEntries - 1));
    const auto index = static_cast<size_t>(n);
    if (files_.entries.size() <= index) files_.entries.resize(index + 1);
    // Whisper's vocabulary has an entry without text.
    if (text.empty()) return;
    std::string& entry = files_.entries[index];
    if (!entry.empty() && entry != text)
      refuse(fmt::format("the entries '{}' and '{}' with the number {}", entry, text, n),
             "a unique number for each");
    const auto [known, is_new] = numbers_.emplace(text, static_cast<int32_t>(n));
    if (!is_new && known->second != n)
      refuse(fmt::format("the entry '{}' with the numbers {} and {}", text, known->second, n),
             "one number for each");
    entry = text;
  }

  std::optional<int32_t> find(const std::string& text) const {
    const auto found = numbers_.find(text);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  void read_vocabulary(const json& vocabulary) {
    if (vocabulary.empty()) refuse("an empty vocabulary", "entries with their numbers");
    for (const auto& [text, number] : vocabulary.items()) add_entry(text, number);
  }

  void add_merge(const std::string& first, const std::string& second) {
    const auto a = find(first), b = find(second), result = find(first + second);
    if (!a || !b || !result)
      refuse(fmt::format("a merge of '{}' and '{}', of which not all are in the vocabulary", first,
                         second),
             "entries for both and for the result");
    files_.merges.push_back({.first = *a, .second = *b, .result = *result});
    results_.insert(*result);
  }

  void read_merge(std::string_view line) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      refuse(fmt::format("the merge '{}'", line), "two entries with a space between them");
    add_merge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)));
  }

  void read_merge_lines(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty() && !line.starts_with("#version")) read_merge(line);
    }
  }

  void read_tokenizer(const fs::path& path) {
    const std::string text = read_text_file(path);
    files_.contents[kTokenizerFile] = text;
    const json tokenizer =
        parse_json_object(text, {.path = path, .part = "it", .expected = "a tokenizer.json"});
    const json* model = find_object(tokenizer, "model");
    if (model == nullptr || find_object(*model, "vocab") == nullptr || !model->contains("merges") ||
        !model->at("merges").is_array())
      refuse("no BPE model", "\"model\" with \"vocab\" and \"merges\"");
    check_features(tokenizer, *model);
    read_vocabulary(model->at("vocab"));
    for (const json& merge : model->at("merges")) {
      if (merge.is_string()) {
        read_merge(merge.get<std::string>());
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        add_merge(merge[0].get<std::string>(), merge[1].get<std::string>());
      } else {
        refuse(fmt::format("the merge {}", shown(merge)), "two entries");
      }
    }
    read_added_list(tokenizer);
  }

  // Refuses what would split or change texts in another way.
  void check_features(const json& tokenizer, const json& model) const {
    if (tokenizer.contains("normalizer") && !tokenizer.at("normalizer").is_null())
      refuse_feature(fmt::format("the normalizer {}", type_of(tokenizer.at("normalizer"))), "none");
    const json* parts = find_object(tokenizer, "pre_tokenizer");
    const json* byte_level = parts == nullptr ? nullptr : byte_level_of(*parts);
    const bool is_alone =
        byte_level != nullptr && (byte_level == parts || parts->at("pretokenizers").size() == 1);
    if (!is_alone || (byte_level->contains("use_regex") && !flag_of(*byte_level, "use_regex")))
      refuse_feature("a pre-tokenizer that does not split as GPT-2 does", "ByteLevel alone");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (model.contains(key) && !model.at(key).is_null() && model.at(key) != "")
        refuse_feature(fmt::format("\"{}\": {}", key, shown(model.at(key))), "none");
    }
    for (const char* key : {"byte_fallback", "ignore_merges"}) {
      if (flag_of(model, key)) refuse_feature(fmt::format("\"{}\": true", key), "false");
    }
  }

  // --- special tokens

  void add_token(const std::string& text, const json& number, const json& token) {
    add_entry(text, number);
    if (flag_of(token, "special")) special_.insert(text);
    added_.insert(text);
  }

  // added_tokens of a tokenizer.json.
  void read_added_list(const json& tokenizer) {
    const json* parts = find_object(tokenizer, "pre_tokenizer");
    if (parts != nullptr && byte_level_of(*parts) != nullptr)
      files_.adds_space |= flag_of(*byte_level_of(*parts), "add_prefix_space");
    if (!tokenizer.contains("added_tokens") || !tokenizer.at("added_tokens").is_array()) return;
    for (const json& token : tokenizer.at("added_tokens")) {
      const std::optional<std::string> text = content_of(token);
      if (!text || !token.is_object() || !token.contains("id"))
        refuse(fmt::format("the added token {}", shown(token)), "its id and content");
      add_token(*text, token.at("id"), token);
    }
  }

  void read_companions() {
    for (const char* name :
         {kConfigFile, kSpecialFile, kAddedFile, kSpellingsFile, kGenerationFile}) {
      if (fs::exists(folder_ / name)) content(name);
    }
    if (files_.contents.contains(kAddedFile)) {
      const json added = object_of(kAddedFile);
      for (const auto& [text, number] : added.items()) add_token(text, number, json());
    }
    for (const char* name : {kSpecialFile, kConfigFile}) {
      if (files_.contents.contains(name)) read_settings(object_of(name));
    }
  }

  // tokenizer_config.json or special_tokens_map.json.
  void read_settings(const json& settings) {
    if (const json* decoder = find_object(settings, "added_tokens_decoder")) {
      for (const auto& [number, token] : decoder->items()) read_decoder_token(number, token);
    }
    for (const auto& [key, value] : settings.items()) {
      const std::optional<std::string> text = content_of(value);
      if (key.ends_with("_token") && text) {
        special_.insert(*text);
        if (key == "pad_token") padding_ = *text;
        if (key == "eos_token") end_ = *text;
      }
      const bool is_list = key == "additional_special_tokens" || key == "extra_special_tokens";
      if (!is_list || !value.is_array()) continue;
      for (const json& token : value) {
        if (const auto content = content_of(token)) special_.insert(*content);
      }
    }
    if (settings.contains("add_prefix_space"))
      files_.adds_space = flag_of(settings, "add_prefix_space");
  }

  void read_decoder_token(const std::string& number, const json& token) {
    int64_t n = 0;
    const char* const end = number.data() + number.size();
    const auto [rest, error] = std::from_chars(number.data(), end, n);
    const std::optional<std::string> text = content_of(token);
    if (error != std::errc() || rest != end || !text)
      refuse(fmt::format("the added token \"{}\": {}", number, shown(token)),
             "a number and a token with its content");
    add_token(*text, n, token);
  }

  // --- both together

  void finish() {
    files_.is_special.resize(files_.entries.size());
    choose_ends();
    for (size_t n = 0; n < files_.entries.size(); ++n) {
      const std::string& entry = files_.entries[n];
      const bool is_of_texts = results_.contains(static_cast<int32_t>(n)) || is_byte(entry);
      const bool is_named = special_.contains(entry);
      files_.is_special[n] = is_named || (added_.contains(entry) && has_brackets(entry)) ||
                             (!is_of_texts && has_special_form(entry));
      if (is_named && is_of_texts)
        refuse_feature(fmt::format("the special token '{}', which texts are encoded as", entry),
                       "special tokens that no text has, such as <|name|>");
      if (!files_.is_special[n] && added_.contains(entry))
        refuse_feature(
            fmt::format("the added token '{}', which other programs match in texts", entry),
            "special tokens alone, such as <|name|>");
    }
  }

  static bool is_byte(const std::string& entry) {
    return !entry.empty() && bytes_of_entry(entry).size() == 1;
  }

  void choose_ends() {
    // transformers writes these defaults only if they were changed.
    for (const char* name : {"<pad>", "[PAD]", "<blank>", "<|endoftext|>"}) {
      if (!padding_ && find(name)) padding_ = name;
    }
    for (const char* name : {"</s>", "<|endoftext|>"}) {
      if (!end_ && find(name)) end_ = name;
    }
    if (padding_) files_.padding = find(*padding_);
    if (end_) files_.end = find(*end_);
    for (const auto& token : {padding_, end_}) {
      if (token) special_.insert(*token);
    }
  }

  fs::path folder_;
  fs::path attempted_;
  ByteBpeFiles files_;
  std::unordered_map<std::string, int32_t> numbers_;
  // Numbers of entries that a merge gives.
  std::set<int32_t> results_;
  // Tokens that a file calls special, and those that it adds to the vocabulary.
  std::set<std::string> special_;
  std::set<std::string> added_;
  std::optional<std::string> padding_;
  std::optional<std::string> end_;
};

}  // namespace

bool is_byte_bpe(const fs::path& path) {
  std::error_code failed;
  if (path.extension() != ".json" || !fs::is_regular_file(path, failed)) return false;
  if (path.filename() == kVocabularyFile) return fs::exists(path.parent_path() / kMergesFile);
  return is_byte_level_json(path);
}

ByteBpeFiles read_byte_bpe(const fs::path& path) {
  return Reader(path).read(path);
}

char32_t letter_of_byte(unsigned char byte) {
  return byte_letters()[byte];
}

std::string bytes_of_entry(std::string_view entry) {
  static const std::unordered_map<char32_t, char> bytes = [] {
    std::unordered_map<char32_t, char> table;
    for (size_t byte = 0; byte < kByteValues; ++byte)
      table.emplace(byte_letters()[byte], static_cast<char>(byte));
    return table;
  }();
  std::string made;
  bool is_written_in_letters = true;
  for_each_code_point(entry, [&](char32_t code) {
    const auto found = bytes.find(code);
    is_written_in_letters &= found != bytes.end();
    if (is_written_in_letters) made += found->second;
  });
  return is_written_in_letters ? made : std::string(entry);
}

}  // namespace sotto::data
