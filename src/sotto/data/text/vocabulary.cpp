#include "sotto/data/text/vocabulary.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/json_object.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/utf8.h"

namespace sotto::data {

namespace {

constexpr std::string_view kDelimiter = "|";
constexpr std::array<std::string_view, 3> kBlanks = {"<pad>", "[PAD]", "<blank>"};
constexpr const char* kFileName = "vocab.json";
constexpr std::array<std::string_view, 2> kUnknowns = {"<unk>", "[UNK]"};

void check_utf8(std::string_view text) {
  if (is_utf8(text)) return;
  throw DataError({.attempted = "reading a transcript",
                   .found = "bytes that are not UTF-8",
                   .expected = "text in UTF-8"});
}

// Returns the characters of a text in order.
std::vector<std::string_view> characters_of(std::string_view text) {
  check_utf8(text);
  std::vector<std::string_view> characters;
  for (size_t at = 0; at < text.size(); at += characters.back().size())
    characters.push_back(character_at(text, at));
  return characters;
}

bool is_in_brackets(std::string_view entry) {
  return entry.size() > 2 && ((entry.front() == '<' && entry.back() == '>') ||
                              (entry.front() == '[' && entry.back() == ']'));
}

bool has_several_characters(std::string_view entry) {
  return !entry.empty() && character_at(entry, 0).size() < entry.size();
}

std::optional<int32_t> find_one(const std::vector<std::string>& entries,
                                std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    const auto found = std::ranges::find(entries, name);
    if (found != entries.end()) return static_cast<int32_t>(found - entries.begin());
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& found,
                         const std::string& expected) {
  throw DataError({.attempted = fmt::format("reading the vocabulary {}", path.string()),
                   .found = found,
                   .expected = expected});
}

// Far more than any vocabulary of characters has.
constexpr int64_t kMaxNumber = 1 << 20;

// Returns the entries by number, of which some may be missing.
std::vector<std::string> take_entries(const nlohmann::json& object,
                                      const std::filesystem::path& path) {
  std::vector<std::string> entries;
  for (const auto& [entry, number] : object.items()) {
    const int64_t n = number.is_number_integer() ? number.get<int64_t>() : -1;
    if (n < 0 || n >= kMaxNumber) {
      refuse(path, fmt::format("entry '{}' has the number {}", entry, number.dump()),
             fmt::format("a whole number from 0 to {}", kMaxNumber - 1));
    }
    if (entry.empty()) refuse(path, fmt::format("entry {} is empty", n), "a character");
    const auto index = static_cast<size_t>(n);
    if (entries.size() <= index) entries.resize(index + 1);
    if (!entries[index].empty())
      refuse(path,
             fmt::format("entries '{}' and '{}' both have the number {}", entries[index], entry, n),
             "a unique number for each");
    entries[index] = entry;
  }
  return entries;
}

// Returns the vocabulary of one language if the file has one for each, as those of MMS do.
nlohmann::json choose_language(const nlohmann::json& object, const std::string& language,
                               const std::filesystem::path& path) {
  const bool is_nested = object.begin()->is_object();
  if (!is_nested && language.empty()) return object;
  if (!is_nested)
    refuse(path, "one vocabulary for all languages",
           fmt::format("one for each, because target_lang in tokenizer_config.json is '{}'",
                       language));
  if (object.contains(language) && object.at(language).is_object() && !object.at(language).empty())
    return object.at(language);
  std::vector<std::string> languages;
  for (const auto& [name, entries] : object.items()) languages.push_back(name);
  constexpr size_t kMaxListed = 12;
  const bool is_long = languages.size() > kMaxListed;
  if (is_long) languages.resize(kMaxListed);
  refuse(
      path,
      fmt::format("a vocabulary for each of {} languages ({}{})", object.size(),
                  fmt::join(languages, ", "), is_long ? " ..." : ""),
      fmt::format("\"target_lang\" in tokenizer_config.json with one of them, not '{}'", language));
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> entries, int32_t blank)
    : entries_(std::move(entries)), is_added_(entries_.size()), blank_(blank) {
  unknown_ = find_one(entries_, kUnknowns);
  std::vector<std::string> special;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string& entry = entries_[i];
    if (is_in_brackets(entry)) {
      special.push_back(entry);
    } else if (has_several_characters(entry)) {
      add_token(entry,
                {.number = static_cast<int64_t>(i), .strips_left = true, .strips_right = true});
    } else if (!entry.empty()) {
      // A `|` in a text is not a delimiter: it could not be distinguished from a space.
      labels_.emplace(entry == kDelimiter ? " " : entry, static_cast<int32_t>(i));
    }
  }
  set_texts(special);
}

Vocabulary::Vocabulary(std::vector<std::string> entries, TokenizerSettings settings,
                       const std::filesystem::path& path)
    : entries_(std::move(entries)), is_added_(entries_.size()), settings_(std::move(settings)) {
  const std::string& delimiter = settings_->delimiter;
  if (has_several_characters(delimiter))
    refuse(path, fmt::format("word_delimiter_token '{}'", delimiter),
           "one character: transformers would spell a longer one letter by letter");
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].empty() && !has_several_characters(entries_[i]))
      labels_.emplace(entries_[i], static_cast<int32_t>(i));
  }
  if (settings_->unknown) unknown_ = find(*settings_->unknown);
  if (!unknown_) unknown_ = find_one(entries_, kUnknowns);
  insert_added(path);
  // A space in a text is the delimiter; if the vocabulary has none, an entry that is a space.
  if (const std::optional<int32_t> number = find(delimiter)) labels_.insert_or_assign(" ", *number);
  choose_blank(path);
  // Files name the blank as the unknown entry if there is no other. It cannot be a label.
  if (unknown_ == blank_) unknown_.reset();
  std::vector<std::string> special = settings_->special_tokens();
  std::erase(special, delimiter);
  if (unknown_) {
    settings_->unknown = entries_[static_cast<size_t>(*unknown_)];
    special.push_back(*settings_->unknown);
  }
  set_texts(special);
}

void Vocabulary::insert_added(const std::filesystem::path& path) {
  const size_t num_listed = entries_.size();
  // A smaller head belongs to another vocabulary; a larger one is kept.
  const bool has_head =
      settings_->head_size >= static_cast<int64_t>(num_listed) && settings_->head_size < kMaxNumber;
  if (has_head) {
    widen(settings_->head_size);
  } else {
    settings_->head_blank.reset();
  }
  for (const AddedToken& token : settings_->added) {
    const std::optional<int32_t> known = find(token.text);
    const auto index = static_cast<size_t>(token.number);
    const auto refuse_number = [&](const std::string& expected) {
      refuse(path, fmt::format("the added token '{}' with the number {}", token.text, token.number),
             expected);
    };
    if (token.number < 0 || token.number >= kMaxNumber)
      refuse_number(fmt::format("a number from 0 to {}", kMaxNumber - 1));
    if (known && *known != token.number)
      refuse_number(fmt::format("its number in this file, {}", *known));
    if (!has_head) widen(token.number + 1);
    if (!known && index < entries_.size()) {
      if (!entries_[index].empty())
        refuse_number(fmt::format("another one: that is the number of '{}'", entries_[index]));
      entries_[index] = token.text;
      is_added_[index] = true;
    }
    add_token(token.text, {.number = token.number,
                           .strips_left = token.strips_left,
                           .strips_right = token.strips_right,
                           .is_single_word = token.is_single_word});
  }
  insert_special();
  for (size_t i = 0; i < num_listed; ++i) {
    if (!is_added_[i] && has_several_characters(entries_[i]))
      add_token(entries_[i],
                {.number = static_cast<int64_t>(i), .strips_left = true, .strips_right = true});
  }
}

void Vocabulary::insert_special() {
  std::set<std::string> known;
  for (const AddedToken& token : settings_->added) known.insert(token.text);
  for (const std::string& entry : entries_) {
    if (!entry.empty()) known.insert(entry);
  }
  auto next = static_cast<int64_t>(known.size());
  for (const std::string& token : settings_->special_tokens()) {
    if (tokens_.contains(code_points_of(token))) continue;
    const std::optional<int32_t> listed = find(token);
    const int64_t number = listed ? *listed : next++;
    add_token(token, {.number = number});
    // Tokens beyond the list are labels only as blank or delimiter, and if the head has them.
    const bool is_used = token == settings_->pad || token == settings_->delimiter;
    if (listed || !is_used || number >= size()) continue;
    std::string& entry = entries_[static_cast<size_t>(number)];
    if (!entry.empty()) continue;
    entry = token;
    is_added_[static_cast<size_t>(number)] = true;
    settings_->added.push_back({.text = token, .number = number});
  }
}

void Vocabulary::choose_blank(const std::filesystem::path& path) {
  std::optional<int32_t> blank;
  if (settings_->names_pad && settings_->pad) {
    blank = find(*settings_->pad);
    if (!blank)
      refuse(path, fmt::format("pad_token '{}', which is not an entry", *settings_->pad),
             "an entry of the vocabulary as the blank");
    if (settings_->head_blank && *settings_->head_blank != *blank)
      refuse(path,
             fmt::format("pad_token '{}' with the number {}, and \"pad_token_id\": {} in "
                         "config.json",
                         *settings_->pad, *blank, *settings_->head_blank),
             "the same blank in both");
  } else if (settings_->head_blank) {
    if (*settings_->head_blank < 0 || *settings_->head_blank >= size())
      refuse(path, fmt::format("\"pad_token_id\": {} in config.json", *settings_->head_blank),
             fmt::format("the blank as one of {} entries", size()));
    blank = static_cast<int32_t>(*settings_->head_blank);
  } else {
    blank = find_one(entries_, kBlanks);
  }
  if (!blank) refuse(path, "no blank", "an entry <pad>, [PAD] or <blank>, or a pad_token");
  blank_ = *blank;
  const std::string& entry = entries_[static_cast<size_t>(blank_)];
  settings_->pad = entry.empty() ? std::nullopt : std::optional(entry);
}

void Vocabulary::add_token(const std::string& text, const Token& token) {
  const std::u32string codes = code_points_of(text);
  tokens_.insert_or_assign(codes, token);
  trie_.add(codes);
}

void Vocabulary::set_texts(std::span<const std::string> special) {
  const std::string delimiter = settings_ ? settings_->delimiter : std::string(kDelimiter);
  const std::string space = settings_ ? settings_->space : " ";
  texts_.resize(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string& entry = entries_[i];
    const bool has_text =
        std::ranges::find(special, entry) == special.end() && static_cast<int32_t>(i) != blank_;
    if (has_text) texts_[i] = entry == delimiter ? space : entry;
  }
}

void Vocabulary::widen(int64_t size) {
  const size_t count = std::max(entries_.size(), static_cast<size_t>(size));
  entries_.resize(count);
  is_added_.resize(count, true);
  texts_.resize(count);
}

TokenizerSettings Vocabulary::settings() const {
  if (settings_) return *settings_;
  const auto entry = [&](int32_t number) { return entries_[static_cast<size_t>(number)]; };
  const auto if_present = [&](const char* name) {
    return find(name) ? std::optional<std::string>(name) : std::nullopt;
  };
  TokenizerSettings settings;
  settings.pad = entry(blank_);
  // transformers gives a token that is not in the vocabulary a new entry, which the network lacks.
  settings.unknown = entry(unknown_.value_or(blank_));
  settings.begin = if_present("<s>");
  settings.end = if_present("</s>");
  if (!find(kDelimiter) && find(" ")) settings.delimiter.assign(1, ' ');
  return settings;
}

std::vector<std::string> Vocabulary::traits() const {
  std::vector<std::string> traits;
  for (const auto& [codes, token] : tokens_) {
    const std::string text = to_utf8(codes);
    const bool is_special = token.number >= size() ||
                            texts_[static_cast<size_t>(token.number)].empty() || codes.size() == 1;
    if (!is_special) traits.push_back("token " + text);
  }
  if (find_one(entries_, kBlanks) != blank_) traits.push_back(fmt::format("blank {}", blank_));
  if (!settings_) return traits;
  if (settings_->lower_case) traits.emplace_back("lower case");
  if (settings_->delimiter != kDelimiter) traits.push_back("delimiter " + settings_->delimiter);
  if (settings_->space != " ") traits.push_back("space " + settings_->space);
  return traits;
}

void CharacterSet::add(std::string_view text) {
  for (const std::string_view character : characters_of(text)) {
    if (!characters_.contains(character)) characters_.emplace(character);
  }
}

Vocabulary Vocabulary::from_texts(const std::vector<std::string_view>& texts) {
  CharacterSet characters;
  for (const std::string_view text : texts) characters.add(text);
  return from_characters(characters);
}

Vocabulary Vocabulary::from_characters(const CharacterSet& characters, bool has_unknown) {
  std::vector<std::string> entries = {std::string(kBlanks.front()), std::string(kDelimiter)};
  if (has_unknown) entries.emplace_back(kUnknowns.front());
  for (const std::string& character : characters.characters_) {
    if (character != " " && character != kDelimiter) entries.push_back(character);
  }
  return Vocabulary(std::move(entries), 0);
}

std::optional<int32_t> Vocabulary::find(std::string_view entry) const {
  const std::array<std::string_view, 1> names = {entry};
  return find_one(entries_, names);
}

Vocabulary Vocabulary::read(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  constexpr const char* kExpected = "an object of entries and numbers";
  const auto parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) refuse(path, "it is not JSON", kExpected);
  if (!parsed.is_object() || parsed.empty())
    refuse(path, fmt::format("{}{}", parsed.empty() ? "an empty " : "", parsed.type_name()),
           fmt::format("{}, such as {}", kExpected, R"({"<pad>": 0, "|": 1, "a": 2})"));
  // Rejects duplicate names and deep nesting.
  const nlohmann::json json =
      parse_json_object(text, {.path = path, .part = "it", .expected = kExpected});
  const bool has_folder = path.filename() == kFileName;
  const std::filesystem::path folder = path.parent_path();
  std::optional<TokenizerSettings> settings =
      has_folder ? read_tokenizer_settings(folder) : std::nullopt;
  std::vector<std::string> entries =
      take_entries(choose_language(json, settings ? settings->language : "", path), path);
  if (settings) return Vocabulary(std::move(entries), std::move(*settings), path);
  const TokenizerSettings head = has_folder ? read_head_settings(folder) : TokenizerSettings{};
  const std::optional<int32_t> blank = find_one(entries, kBlanks);
  if (!blank) refuse(path, "no blank", "an entry <pad>, [PAD] or <blank>");
  Vocabulary vocabulary(std::move(entries), *blank);
  vocabulary.widen(head.head_size < kMaxNumber ? head.head_size : 0);
  return vocabulary;
}

std::string Vocabulary::to_json() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!is_added_[i] && !entries_[i].empty()) json[entries_[i]] = i;
  }
  return json.dump(2) + "\n";
}

void Vocabulary::write(const std::filesystem::path& path) const {
  std::ofstream file(path, std::ios::binary);
  file << to_json();
  file.close();
  if (settings_ && file) {
    const std::string text = tokenizer_config_json(*settings_).dump(2) + "\n";
    write_file(path.parent_path() / "tokenizer_config.json", std::as_bytes(std::span(text)));
  }
  if (file) return;
  throw DataError({.attempted = fmt::format("writing the vocabulary {}", path.string()),
                   .found = "it could not be written",
                   .expected = "a folder that exists and a disk that is not full"});
}

}  // namespace sotto::data
