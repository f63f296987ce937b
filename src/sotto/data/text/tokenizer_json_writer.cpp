#include "sotto/data/text/tokenizer_json_writer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "sotto/core/files/text_file.h"
#include "sotto/core/formats/protobuf_reader.h"
#include "sotto/core/utf8.h"
#include "sotto/data/text/sentence_piece_fields.h"

namespace sotto::data {

namespace {

using nlohmann::ordered_json;

// What a file says, whatever it was made from.
struct Contents {
  std::vector<Piece> pieces;
  ModelType type = ModelType::kUnigram;
  int64_t unknown = 0;
  bool has_bytes = false;
  // Neighbouring unknown characters are one entry.
  bool joins_unknown = true;
  bool space_ends_words = false;
  bool has_dummy_prefix = true;
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;
  std::string chars_map = {};
};

Piece piece_of(std::string_view message) {
  Piece piece;
  ProtobufReader reader(message);
  while (const std::optional<ProtobufReader::Field> field = reader.next()) {
    if (field->number == kPieceText) piece.text = field->bytes;
    if (field->number == kPieceScore) piece.score = field->as_float();
    if (field->number == kPieceType) piece.type = static_cast<PieceType>(field->integer);
  }
  return piece;
}

void read_trainer(std::string_view message, Contents& contents) {
  ProtobufReader reader(message);
  while (const std::optional<ProtobufReader::Field> field = reader.next()) {
    if (field->number == kModelType) contents.type = static_cast<ModelType>(field->integer);
    if (field->number == kByteFallback) contents.has_bytes = field->integer != 0;
    if (field->number == kSpaceEndsWords) contents.space_ends_words = field->integer != 0;
  }
}

void read_rules(std::string_view message, Contents& contents) {
  ProtobufReader reader(message);
  while (const std::optional<ProtobufReader::Field> field = reader.next()) {
    if (field->number == kCharsMap) contents.chars_map = field->bytes;
    if (field->number == kDummyPrefix) contents.has_dummy_prefix = field->integer != 0;
    if (field->number == kRemovesExtraSpaces) contents.removes_extra_spaces = field->integer != 0;
    if (field->number == kEscapesSpaces) contents.escapes_spaces = field->integer != 0;
  }
}

Contents contents_of(std::string_view model) {
  Contents contents;
  ProtobufReader reader(model);
  while (const std::optional<ProtobufReader::Field> field = reader.next()) {
    if (field->number == kPieces) contents.pieces.push_back(piece_of(field->bytes));
    if (field->number == kTrainer) read_trainer(field->bytes, contents);
    if (field->number == kNormalizer) read_rules(field->bytes, contents);
  }
  const auto unknown = std::ranges::find(contents.pieces, PieceType::kUnknown, &Piece::type);
  contents.unknown = unknown - contents.pieces.begin();
  return contents;
}

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8U | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i)
      text += at + i > bytes.size() ? '=' : kDigits[bits >> (18U - 6U * i) & 63U];
  }
  return text;
}

ordered_json token_entry(size_t number, const std::string& text, bool is_special) {
  return {{"id", number},    {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", is_special}};
}

// SentencePiece merges the pair whose result has the highest score, tokenizers the pair that comes
// first in this list; pairs with the same result follow each other, as transformers orders them.
ordered_json merges_of(const std::vector<Piece>& pieces) {
  std::map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].type == PieceType::kNormal) numbers.emplace(pieces[i].text, i);
  std::vector<size_t> order;
  for (const auto& [text, number] : numbers) order.push_back(number);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return std::pair(-pieces[a].score, a) < std::pair(-pieces[b].score, b);
  });
  ordered_json merges = ordered_json::array();
  for (const size_t number : order) {
    const std::string_view text = pieces[number].text;
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t at = character_at(text, 0).size(); at < text.size();
         at += character_at(text, at).size()) {
      const auto first = numbers.find(text.substr(0, at));
      const auto second = numbers.find(text.substr(at));
      if (first != numbers.end() && second != numbers.end())
        pairs.emplace_back(first->second, second->second);
    }
    std::ranges::sort(pairs);
    for (const auto& [first, second] : pairs)
      merges.push_back({pieces[first].text, pieces[second].text});
  }
  return merges;
}

ordered_json bpe_model(const Contents& contents) {
  ordered_json vocabulary = ordered_json::object();
  for (size_t i = 0; i < contents.pieces.size(); ++i) vocabulary[contents.pieces[i].text] = i;
  const bool has_unknown = contents.unknown < std::ssize(contents.pieces);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token",
           has_unknown ? ordered_json(contents.pieces[static_cast<size_t>(contents.unknown)].text)
                       : ordered_json(nullptr)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", contents.joins_unknown},
          {"byte_fallback", contents.has_bytes},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges",
           contents.type == ModelType::kBpe ? merges_of(contents.pieces) : ordered_json::array()}};
}

ordered_json unigram_model(const Contents& contents) {
  ordered_json vocabulary = ordered_json::array();
  for (const Piece& piece : contents.pieces) vocabulary.push_back({piece.text, piece.score});
  return {{"type", "Unigram"},
          {"unk_id", contents.unknown},
          {"vocab", std::move(vocabulary)},
          {"byte_fallback", contents.has_bytes}};
}

// nullptr where texts stay as they are.
ordered_json normalizer_of(const Contents& contents) {
  ordered_json parts = ordered_json::array();
  if (!contents.chars_map.empty())
    parts.push_back(
        {{"type", "Precompiled"}, {"precompiled_charsmap", base64_of(contents.chars_map)}});
  if (contents.removes_extra_spaces) {
    parts.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
    parts.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  }
  if (parts.empty()) return nullptr;
  return {{"type", "Sequence"}, {"normalizers", std::move(parts)}};
}

ordered_json spaces_of(const Contents& contents) {
  // A piece with a space inside is found only in texts that are not split at spaces.
  const bool spans_words = std::ranges::any_of(contents.pieces, [](const Piece& piece) {
    return piece.type == PieceType::kNormal && piece.text.find(kSpaceMark, 1) != std::string::npos;
  });
  return {{"type", "Metaspace"},
          {"replacement", kSpaceMark},
          {"prepend_scheme", contents.has_dummy_prefix ? "always" : "never"},
          {"split", !spans_words}};
}

ordered_json decoder_of(const Contents& contents) {
  if (!contents.has_bytes) return spaces_of(contents);
  ordered_json parts = {
      {{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}},
      {{"type", "ByteFallback"}},
      {{"type", "Fuse"}}};
  if (contents.has_dummy_prefix)
    parts.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(parts)}};
}

bool is_without_text(const Piece& piece) {
  return piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
}

TokenizersFile file_of(const Contents& contents, std::string_view blank) {
  TokenizersFile file;
  ordered_json added = ordered_json::array();
  for (const Piece& piece : contents.pieces) {
    if (is_without_text(piece) || piece.type == PieceType::kUser)
      added.push_back(token_entry(file.entries.size(), piece.text, is_without_text(piece)));
    file.entries.push_back(piece.text);
    file.is_special.push_back(is_without_text(piece));
  }
  if (!blank.empty()) {
    std::string name(blank);
    while (std::ranges::find(file.entries, name) != file.entries.end()) name.insert(1, "_");
    added.push_back(token_entry(file.entries.size(), name, true));
    file.entries.push_back(std::move(name));
    file.is_special.push_back(true);
  }
  const ordered_json whole = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", normalizer_of(contents)},
      {"pre_tokenizer", spaces_of(contents)},
      {"post_processor", nullptr},
      {"decoder", decoder_of(contents)},
      {"model",
       contents.type == ModelType::kUnigram ? unigram_model(contents) : bpe_model(contents)}};
  file.text = whole.dump(2) + "\n";
  return file;
}

}  // namespace

std::optional<TokenizersFile> tokenizers_file_of(std::string_view model, bool has_blank,
                                                 std::string_view blank) {
  const Contents contents = contents_of(model);
  constexpr std::array kKnown = {ModelType::kUnigram, ModelType::kBpe, ModelType::kCharacter};
  if (std::ranges::find(kKnown, contents.type) == kKnown.end() || contents.space_ends_words ||
      !contents.escapes_spaces || contents.unknown == std::ssize(contents.pieces) ||
      !std::ranges::all_of(contents.pieces, is_utf8, &Piece::text))
    return std::nullopt;
  return file_of(contents, has_blank ? std::string_view() : blank);
}

std::optional<TokenizersFile> tokenizers_file_of(const Vocabulary& vocabulary) {
  if (vocabulary.has_settings()) return std::nullopt;
  Contents contents;
  contents.type = ModelType::kCharacter;
  contents.joins_unknown = false;
  contents.has_dummy_prefix = false;
  contents.unknown = vocabulary.unknown().value_or(std::ssize(vocabulary.entries()));
  for (size_t number = 0; number < vocabulary.entries().size(); ++number) {
    const std::string& entry = vocabulary.entries()[number];
    // Numbers without an entry at the end belong to a larger head; elsewhere they cannot be left
    // out.
    if (entry.empty()) break;
    Piece piece{.text = entry == "|" ? std::string(kSpaceMark) : entry};
    const auto label = static_cast<int32_t>(number);
    if (vocabulary.unknown() == label) {
      piece.type = PieceType::kUnknown;
    } else if (vocabulary.decode({&label, 1}).empty()) {
      piece.type = PieceType::kControl;
    } else if (character_at(piece.text, 0).size() != piece.text.size()) {
      return std::nullopt;
    }
    contents.pieces.push_back(std::move(piece));
  }
  const auto is_entry = [](const std::string& entry) { return !entry.empty(); };
  if (std::ranges::count_if(vocabulary.entries(), is_entry) != std::ssize(contents.pieces))
    return std::nullopt;
  return file_of(contents, {});
}

}  // namespace sotto::data
