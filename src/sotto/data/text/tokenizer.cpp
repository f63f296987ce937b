#include "sotto/data/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/mapped_file.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/hash.h"
#include "sotto/core/utf8.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

constexpr const char* kVocabulary = "vocab.json";
constexpr const char* kModel = "tokenizer.model";

std::string read_all(const fs::path& path) {
  const MappedFile file = MappedFile::open(path, "a tokenizer");
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

fs::path file_of(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  if (const std::optional<fs::path> file = Tokenizer::find(path)) return *file;
  throw DataError({.attempted = fmt::format("finding the tokenizer of {}", path.string()),
                   .found = "none",
                   .expected = fmt::format("a {} or a {}", kVocabulary, kModel)});
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary, TextRules rules)
    : form_(std::move(vocabulary)), rules_(std::move(rules)) {}

Tokenizer::Tokenizer(SentencePieceModel model, TextRules rules)
    : form_(std::make_shared<const SentencePieceModel>(std::move(model))),
      rules_(std::move(rules)) {}

std::optional<fs::path> Tokenizer::find(const fs::path& folder) {
  for (const char* name : {kVocabulary, kModel}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

Tokenizer Tokenizer::read(const fs::path& path, const TextRules& rules) {
  const fs::path file = file_of(path);
  if (file.extension() == ".json") return {Vocabulary::read(file), rules};
  return {SentencePieceModel::parse(read_all(file), file.string()), rules};
}

Tokenizer Tokenizer::of_characters(const Manifest& manifest, const TextRules& rules) {
  CharacterSet characters;
  const std::vector<char32_t>& raw = manifest.index().characters();
  if (rules.keeps_each(raw)) {
    std::string text;
    for (const char32_t character : raw) append_utf8(text, character);
    characters.add(text);
  } else {
    for (int64_t u = 0; u < manifest.size(); ++u) characters.add(rules.apply(manifest.at(u).text));
  }
  return {Vocabulary::from_characters(characters), rules};
}

void Tokenizer::write(const fs::path& folder) const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_))
    return vocabulary->write(folder / kVocabulary);
  const std::string& bytes = std::get<1>(form_)->bytes();
  write_file(folder / kModel, std::as_bytes(std::span(bytes)));
}

void Tokenizer::widen(int64_t size) {
  if (auto* vocabulary = std::get_if<Vocabulary>(&form_)) vocabulary->widen(size);
}

int64_t Tokenizer::size() const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) return vocabulary->size();
  const SentencePieceModel& model = *std::get<1>(form_);
  return model.padding() ? model.size() : model.size() + 1;
}

int32_t Tokenizer::blank() const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) return vocabulary->blank();
  const SentencePieceModel& model = *std::get<1>(form_);
  return model.padding().value_or(static_cast<int32_t>(model.size()));
}

std::optional<int32_t> Tokenizer::unknown() const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) return vocabulary->unknown();
  return std::get<1>(form_)->unknown();
}

std::optional<int32_t> Tokenizer::end() const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) return vocabulary->find("</s>");
  return std::get<1>(form_)->end();
}

uint64_t Tokenizer::fingerprint() const {
  uint64_t hash = 0;
  const auto add = [&](std::string_view text) { hash = hash_combine(hash, hash_bytes(text)); };
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) {
    // Numbers without an entry after the last one belong to a larger head, not to another
    // vocabulary.
    const std::vector<std::string>& entries = vocabulary->entries();
    const auto last = std::find_if(entries.rbegin(), entries.rend(),
                                   [](const std::string& entry) { return !entry.empty(); });
    for (auto entry = entries.begin(); entry != last.base(); ++entry) add(*entry);
    for (const std::string& trait : vocabulary->traits()) add(trait);
  } else {
    add(std::get<1>(form_)->bytes());
  }
  add(name_of(rules_.unicode, kUnicodeForms));
  add(name_of(rules_.letter_case, kLetterCases));
  add(name_of(rules_.punctuation, kPunctuations));
  add(rules_.keep_characters);
  return hash;
}

bool Tokenizer::has_each(std::span<const char32_t> characters) const {
  const auto* vocabulary = std::get_if<Vocabulary>(&form_);
  return vocabulary != nullptr && vocabulary->has_all(characters) && rules_.keeps_each(characters);
}

Tokenizer::Encoded Tokenizer::encode(std::string_view text) const {
  Encoded encoded{.text = rules_.apply(text), .labels = {}, .unknown = {}};
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) {
    Vocabulary::Encoded found = vocabulary->encode(encoded.text);
    encoded.labels = std::move(found.labels);
    encoded.unknown = std::move(found.unknown);
  } else {
    encoded.labels = std::get<1>(form_)->encode(encoded.text, encoded.unknown);
  }
  return encoded;
}

std::string Tokenizer::piece(int32_t label) const {
  SOTTO_ASSERT(label >= 0 && label < size(), "label {} of {}", label, size());
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_))
    return vocabulary->decode({&label, 1});
  const SentencePieceModel& model = *std::get<1>(form_);
  return label < model.size() ? model.piece(label) : std::string();
}

std::string Tokenizer::decoded_form(std::string_view text) const {
  const auto* vocabulary = std::get_if<Vocabulary>(&form_);
  return vocabulary != nullptr ? vocabulary->decoded_form(text) : std::string(text);
}

std::string Tokenizer::decode(std::span<const int32_t> labels) const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) return vocabulary->decode(labels);
  const SentencePieceModel& model = *std::get<1>(form_);
  std::vector<int32_t> pieces;
  for (const int32_t label : labels) {
    SOTTO_ASSERT(label >= 0 && label < size(), "label {} of {}", label, size());
    if (label < model.size()) pieces.push_back(label);
  }
  return model.decode(pieces);
}

}  // namespace sotto::data
