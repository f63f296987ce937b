#include "sotto/data/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/mapped_file.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/formats/nemo_archive.h"
#include "sotto/core/hash.h"
#include "sotto/core/utf8.h"
#include "sotto/data/text/sentence_piece_file.h"
#include "sotto/data/text/tokenizer_json.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

constexpr const char* kVocabulary = "vocab.json";
constexpr const char* kModel = "tokenizer.model";
constexpr const char* kTokenizersFile = "tokenizer.json";

std::string read_all(const fs::path& path) {
  const MappedFile file = MappedFile::open(path, "a tokenizer");
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// In NeMo the blank follows the pieces, whether or not one of them is a padding.
std::string sentence_piece_of_nemo(const fs::path& path) {
  const NemoArchive archive = NemoArchive::open(path);
  return without_padding(
      archive.sentence_piece(nemo_tokenizer_name(nemo_settings(archive.parts(), path))));
}

fs::path file_of(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  if (const std::optional<fs::path> file = Tokenizer::find(path)) return *file;
  throw DataError(
      {.attempted = fmt::format("finding the tokenizer of {}", path.string()),
       .found = "none",
       .expected = fmt::format("a {}, a {} or a {}", kVocabulary, kModel, kTokenizersFile)});
}

std::string without_outer_spaces(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

}  // namespace

Tokenizer::Tokenizer(Vocabulary vocabulary, TextRules rules)
    : form_(std::move(vocabulary)), rules_(std::move(rules)) {}

Tokenizer::Tokenizer(SentencePieceModel model, TextRules rules)
    : form_(std::make_shared<const SentencePieceModel>(std::move(model))),
      rules_(std::move(rules)) {}

Tokenizer::Tokenizer(ByteBpe model, TextRules rules)
    : form_(std::make_shared<const ByteBpe>(std::move(model))), rules_(std::move(rules)) {}

const ByteBpe* Tokenizer::byte_bpe() const {
  const auto* model = std::get_if<std::shared_ptr<const ByteBpe>>(&form_);
  return model == nullptr ? nullptr : model->get();
}

std::optional<fs::path> Tokenizer::find(const fs::path& folder) {
  if (is_nemo_file(folder)) return folder;
  // A vocab.json may have a tokenizer.json beside it, which then says nothing else.
  for (const char* name : {kVocabulary, kModel, kTokenizersFile}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

Tokenizer Tokenizer::read(const fs::path& path, const TextRules& rules) {
  const fs::path file = file_of(path);
  if (is_nemo_file(file))
    return {SentencePieceModel::parse(sentence_piece_of_nemo(file), file.string()), rules};
  if (is_byte_bpe(file)) return {ByteBpe::read(file), rules};
  if (is_tokenizer_json(file))
    return {SentencePieceModel::parse(sentence_piece_of_json(file), file.string()), rules};
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
  if (const ByteBpe* model = byte_bpe()) return model->write(folder);
  const std::string& bytes = std::get<1>(form_)->bytes();
  write_file(folder / kModel, std::as_bytes(std::span(bytes)));
}

std::optional<TokenizersFile> Tokenizer::for_transformers(std::string_view blank) const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_))
    return tokenizers_file_of(*vocabulary);
  if (byte_bpe() != nullptr) return std::nullopt;
  const SentencePieceModel& model = *std::get<1>(form_);
  return tokenizers_file_of(model.bytes(), model.padding().has_value(), blank);
}

void Tokenizer::widen(int64_t size) {
  if (auto* vocabulary = std::get_if<Vocabulary>(&form_)) vocabulary->widen(size);
  if (byte_bpe() != nullptr) head_size_ = std::max(head_size_, size);
}

int64_t Tokenizer::size() const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) return vocabulary->size();
  if (const ByteBpe* model = byte_bpe())
    return std::max(model->padding() ? model->size() : model->size() + 1, head_size_);
  const SentencePieceModel& model = *std::get<1>(form_);
  return model.padding() ? model.size() : model.size() + 1;
}

int32_t Tokenizer::blank() const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) return vocabulary->blank();
  if (const ByteBpe* model = byte_bpe())
    return model->padding().value_or(static_cast<int32_t>(model->size()));
  const SentencePieceModel& model = *std::get<1>(form_);
  return model.padding().value_or(static_cast<int32_t>(model.size()));
}

std::optional<int32_t> Tokenizer::unknown() const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) return vocabulary->unknown();
  if (byte_bpe() != nullptr) return std::nullopt;
  return std::get<1>(form_)->unknown();
}

std::optional<int32_t> Tokenizer::end() const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) return vocabulary->find("</s>");
  if (const ByteBpe* model = byte_bpe()) return model->end();
  return std::get<1>(form_)->end();
}

std::optional<std::string> Tokenizer::sentence_piece() const {
  const auto* model = std::get_if<std::shared_ptr<const SentencePieceModel>>(&form_);
  if (model == nullptr) return std::nullopt;
  return (*model)->bytes();
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
  } else if (const ByteBpe* model = byte_bpe()) {
    hash = hash_combine(hash, model->fingerprint());
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
  } else if (const ByteBpe* model = byte_bpe()) {
    encoded.labels = model->encode(encoded.text, encoded.unknown);
  } else {
    encoded.labels = std::get<1>(form_)->encode(encoded.text, encoded.unknown);
  }
  return encoded;
}

std::string Tokenizer::piece(int32_t label) const {
  SOTTO_ASSERT(label >= 0 && label < size(), "label {} of {}", label, size());
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_))
    return vocabulary->decode({&label, 1});
  if (const ByteBpe* model = byte_bpe())
    return label < model->size() ? std::string(model->piece(label)) : std::string();
  const SentencePieceModel& model = *std::get<1>(form_);
  return label < model.size() ? model.piece(label) : std::string();
}

std::string Tokenizer::decoded_form(std::string_view text) const {
  const auto* vocabulary = std::get_if<Vocabulary>(&form_);
  return vocabulary != nullptr ? vocabulary->decoded_form(text) : std::string(text);
}

std::string Tokenizer::decode(std::span<const int32_t> labels) const {
  if (const auto* vocabulary = std::get_if<Vocabulary>(&form_)) return vocabulary->decode(labels);
  const ByteBpe* bytes = byte_bpe();
  const int64_t num_pieces = bytes != nullptr ? bytes->size() : std::get<1>(form_)->size();
  std::vector<int32_t> pieces;
  for (const int32_t label : labels) {
    SOTTO_ASSERT(label >= 0 && label < size(), "label {} of {}", label, size());
    if (label < num_pieces) pieces.push_back(label);
  }
  return bytes != nullptr ? without_outer_spaces(bytes->decode(pieces))
                          : std::get<1>(form_)->decode(pieces);
}

}  // namespace sotto::data
