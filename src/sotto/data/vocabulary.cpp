#include "sotto/data/vocabulary.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/core/text_file.h"
#include "sotto/core/utf8.h"

namespace sotto::data {

namespace {

constexpr std::string_view kDelimiter = "|";
constexpr std::array<std::string_view, 2> kBlanks = {"<pad>", "[PAD]"};
constexpr std::array<std::string_view, 2> kUnknowns = {"<unk>", "[UNK]"};

void check_utf8(std::string_view text) {
  if (is_utf8(text)) return;
  throw DataError({.attempted = "reading a transcript",
                   .found = "bytes that are not UTF-8",
                   .expected = "text in UTF-8"});
}

// The characters of a text, one after the other.
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

// The entries by their numbers.
std::vector<std::string> take_entries(const nlohmann::json& json,
                                      const std::filesystem::path& path) {
  std::vector<std::string> entries(json.size());
  std::vector<bool> is_taken(json.size());
  for (const auto& [entry, number] : json.items()) {
    const bool is_whole = number.is_number_integer();
    const int64_t n = is_whole ? number.get<int64_t>() : -1;
    if (n < 0 || n >= static_cast<int64_t>(json.size())) {
      refuse(path, fmt::format("entry '{}' has the number {}", entry, number.dump()),
             fmt::format("the whole numbers from 0 to {}, one for each of the {} entries",
                         json.size() - 1, json.size()));
    }
    if (entry.empty()) refuse(path, fmt::format("entry {} is empty", n), "a character");
    if (is_taken[static_cast<size_t>(n)])
      refuse(path,
             fmt::format("entries '{}' and '{}' both have the number {}",
                         entries[static_cast<size_t>(n)], entry, n),
             "a number of its own for each");
    is_taken[static_cast<size_t>(n)] = true;
    entries[static_cast<size_t>(n)] = entry;
  }
  return entries;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> entries, int32_t blank)
    : entries_(std::move(entries)), blank_(blank), unknown_(find_one(entries_, kUnknowns)) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string& entry = entries_[i];
    if (is_in_brackets(entry)) continue;
    labels_.emplace(entry == kDelimiter ? " " : entry, static_cast<int32_t>(i));
  }
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

bool Vocabulary::has_all(std::span<const char32_t> characters) const {
  return std::ranges::all_of(characters, [&](char32_t character) {
    std::string text;
    append_utf8(text, character);
    return labels_.contains(text);
  });
}

std::optional<int32_t> Vocabulary::find(std::string_view entry) const {
  const std::array<std::string_view, 1> names = {entry};
  return find_one(entries_, names);
}

Vocabulary Vocabulary::read(const std::filesystem::path& path) {
  const nlohmann::json json =
      nlohmann::json::parse(read_text_file(path), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) refuse(path, "it is not JSON", "an object of entries and numbers");
  if (!json.is_object() || json.empty())
    refuse(path, fmt::format("{}{}", json.empty() ? "an empty " : "", json.type_name()),
           "an object of entries and numbers, such as {\"<pad>\": 0, \"|\": 1, \"a\": 2}");
  std::vector<std::string> entries = take_entries(json, path);
  const std::optional<int32_t> blank = find_one(entries, kBlanks);
  if (!blank) refuse(path, "no blank", "an entry <pad> or [PAD]");
  return Vocabulary(std::move(entries), *blank);
}

void Vocabulary::write(const std::filesystem::path& path) const {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (size_t i = 0; i < entries_.size(); ++i) json[entries_[i]] = i;
  std::ofstream file(path, std::ios::binary);
  file << json.dump(2) << "\n";
  file.close();
  if (file) return;
  throw DataError({.attempted = fmt::format("writing the vocabulary {}", path.string()),
                   .found = "it could not be written",
                   .expected = "a folder that exists and a disk that is not full"});
}

Vocabulary::Encoded Vocabulary::encode(std::string_view text) const {
  Encoded encoded;
  for (const std::string_view character : characters_of(text)) {
    const auto found = labels_.find(character);
    // A `|` in a text is no delimiter: labels_ has the space in its place.
    if (found != labels_.end()) {
      encoded.labels.push_back(found->second);
      continue;
    }
    if (unknown_) encoded.labels.push_back(*unknown_);
    if (std::ranges::find(encoded.unknown, character) == encoded.unknown.end())
      encoded.unknown.emplace_back(character);
  }
  return encoded;
}

std::string Vocabulary::decode(std::span<const int32_t> labels) const {
  std::string text;
  for (const int32_t label : labels) {
    SOTTO_ASSERT(label >= 0 && label < size(), "label {} of {}", label, size());
    const std::string& entry = entries_[static_cast<size_t>(label)];
    if (is_in_brackets(entry)) continue;
    text += entry == kDelimiter ? " " : entry;
  }
  return text;
}

}  // namespace sotto::data
