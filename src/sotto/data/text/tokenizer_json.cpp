#include "sotto/data/text/tokenizer_json.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/formats/protobuf_message.h"
#include "sotto/core/utf8.h"
#include "sotto/data/text/sentence_piece_fields.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct SpaceRules {
  bool has_dummy_prefix = false;
  bool removes_extra_spaces = false;
  std::string chars_map = {};
};

std::vector<unsigned char> six_bit_values() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> values(256, 64);
  for (size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<unsigned char>(i);
  return values;
}

std::string from_base64(std::string_view text) {
  const std::vector<unsigned char> values = six_bit_values();
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char letter : text) {
    const unsigned char value = values[static_cast<unsigned char>(letter)];
    if (value > 63) continue;  // padding
    bits = bits << 6 | value;
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += static_cast<char>(bits >> num_bits & 0xff);
  }
  return bytes;
}

// A tokenizer.json on its way to a SentencePiece model.
class Converter {
 public:
  Converter(const fs::path& path, const json& tokenizer) : path_(path), tokenizer_(tokenizer) {}

  std::string convert() {
    const json& model = object(tokenizer_, "model");
    is_bpe_ = model.contains("merges");
    if (is_bpe_) {
      read_bpe(model);
    } else {
      read_unigram(model);
    }
    read_added_tokens();
    read_normalizer(tokenizer_.value("normalizer", json()));
    read_pre_tokenizer(tokenizer_.value("pre_tokenizer", json()));
    return message();
  }

 private:
  [[noreturn]] void refuse(std::string found, std::string expected) const {
    throw ConfigError(
        {.attempted = fmt::format("reading the tokenizer {}", path_.string()),
         .found = std::move(found),
         .expected = std::move(expected),
         .hint = "Name another with --set data.tokenizer=FILE; the head is then new."});
  }

  const json& object(const json& parent, const char* key) const {
    if (!parent.contains(key) || !parent.at(key).is_object())
      refuse(fmt::format("no object \"{}\"", key), "a tokenizer.json of Hugging Face's tokenizers");
    return parent.at(key);
  }

  std::optional<size_t> find(std::string_view text) const {
    const auto found = numbers_.find(text);
    return found == numbers_.end() ? std::nullopt : std::optional<size_t>(found->second);
  }

  void add_piece(size_t number, std::string text, double score) {
    if (number != pieces_.size())
      refuse(fmt::format("the entry '{}' with number {}", text, number),
             fmt::format("numbers without gaps, here {}", pieces_.size()));
    if (!numbers_.emplace(text, number).second)
      refuse(fmt::format("the entry '{}' twice", text), "each once");
    pieces_.push_back({.text = std::move(text), .score = score});
  }

  void mark_unknown(size_t number) {
    if (number >= pieces_.size())
      refuse("an unknown token that is not there", "one of the entries");
    pieces_[number].type = PieceType::kUnknown;
    unknown_ = number;
  }

  // --- BPE

  void read_bpe(const json& model) {
    std::map<size_t, std::string> by_number;
    for (const auto& [text, number] : object(model, "vocab").items())
      by_number.emplace(number.get<size_t>(), text);
    for (const auto& [number, text] : by_number) add_piece(number, text, 0.0);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!model.value(key, json()).is_null() && model.at(key) != "")
        refuse(fmt::format("\"{}\": {}", key, model.at(key).dump()), "none");
    }
    if (model.value("unk_token", json()).is_string()) {
      if (const auto number = find(model.at("unk_token").get<std::string>())) mark_unknown(*number);
    }
    has_bytes_ = model.value("byte_fallback", false) && mark_bytes();
    read_merges(model.at("merges"));
  }

  // Marks the pieces of single bytes. Returns whether all are there.
  bool mark_bytes() {
    std::vector<size_t> found;
    for (int byte = 0; byte < 256; ++byte) {
      const auto number = find(fmt::format("<0x{:02X}>", byte));
      if (!number) return false;
      found.push_back(*number);
    }
    for (const size_t number : found) pieces_[number].type = PieceType::kByte;
    return true;
  }

  std::pair<std::string, std::string> halves_of(const json& merge) const {
    if (merge.is_array() && merge.size() == 2)
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    if (space == std::string::npos) refuse(fmt::format("the merge '{}'", text), "two entries");
    return {text.substr(0, space), text.substr(space + 1)};
  }

  // SentencePiece merges the pair whose result has the highest score: a score for each result, by
  // its first merge, says the same as the list where merges with one result follow each other.
  void read_merges(const json& merges) {
    std::set<std::pair<std::string, std::string>> all;
    std::vector<bool> is_made(pieces_.size(), false);
    std::optional<size_t> last;
    double score = 0.0;
    for (const json& merge : merges) {
      std::pair<std::string, std::string> halves = halves_of(merge);
      const auto result = find(halves.first + halves.second);
      if (!result)
        refuse(fmt::format("a merge to '{}'", halves.first + halves.second), "one of the entries");
      if (result != last && is_made[*result])
        refuse(fmt::format("merges to '{}' that do not follow each other", pieces_[*result].text),
               "merges ordered by their result");
      if (result != last) pieces_[*result].score = score -= 1.0;
      is_made[*result] = true;
      last = result;
      all.insert(std::move(halves));
    }
    for (size_t number = 0; number < pieces_.size(); ++number)
      check_merges(pieces_[number], is_made[number], all);
    // Single characters are there from the start.
    for (size_t number = 0; number < pieces_.size(); ++number)
      if (!is_made[number]) pieces_[number].score = score -= 1.0;
  }

  // Throws where SentencePiece would merge what the list does not.
  void check_merges(const Piece& piece, bool is_made,
                    const std::set<std::pair<std::string, std::string>>& merges) {
    if (piece.type != PieceType::kNormal || is_special(piece.text)) return;
    size_t split = 0;
    for (size_t i = 1; i < piece.text.size(); ++i) {
      if ((static_cast<unsigned char>(piece.text[i]) & 0xC0U) == 0x80U) continue;
      ++split;
      const std::string first = piece.text.substr(0, i), second = piece.text.substr(i);
      if (find(first) && find(second) && !merges.contains({first, second}))
        refuse(
            fmt::format("'{}' and '{}', which are never merged to '{}'", first, second, piece.text),
            "a merge for all entries that could be merged");
    }
    if (split > 0 && !is_made)
      refuse(fmt::format("the entry '{}', which no merge gives", piece.text), "a merge for it");
  }

  bool is_special(const std::string& text) const {
    for (const json& token : tokenizer_.value("added_tokens", json::array()))
      if (token.value("content", "") == text) return true;
    return false;
  }

  // --- unigram

  void read_unigram(const json& model) {
    if (!model.contains("vocab") || !model.at("vocab").is_array())
      refuse(fmt::format("a model of type {}", model.value("type", "unknown")), "BPE or Unigram");
    for (const json& entry : model.at("vocab"))
      add_piece(pieces_.size(), entry.at(0).get<std::string>(), entry.at(1).get<double>());
    if (model.value("unk_id", json()).is_number()) mark_unknown(model.at("unk_id").get<size_t>());
    has_bytes_ = model.value("byte_fallback", false) && mark_bytes();
  }

  // --- both

  void read_added_tokens() {
    for (const json& token : tokenizer_.value("added_tokens", json::array())) {
      const auto number = token.at("id").get<size_t>();
      const auto text = token.at("content").get<std::string>();
      if (number == pieces_.size()) add_piece(number, text, 0.0);
      if (find(text) != number)
        refuse(fmt::format("the added token '{}' with number {}", text, number),
               "numbers that follow those of the vocabulary");
      if (number == unknown_) continue;
      if (!unknown_ && text == "<unk>") {
        mark_unknown(number);
      } else {
        pieces_[number].type =
            token.value("special", false) ? PieceType::kControl : PieceType::kUser;
      }
    }
    if (!unknown_) refuse("no token for unknown characters", "one, such as <unk>");
    for (const char* name : {"<pad>", "<blank>"}) {
      if (const auto number = find(name)) {
        padding_ = name;
        pieces_[*number].type = PieceType::kControl;
      }
    }
  }

  static bool replaces_spaces(const json& normalizer) {
    const auto content = normalizer.value("content", "");
    const json& pattern = normalizer.at("pattern");
    return (content == kSpaceMark || content == " ") &&
           (pattern.value("Regex", "") == " {2,}" || pattern.value("String", "") == " ");
  }

  void read_normalizer(const json& normalizer) {
    if (normalizer.is_null()) return;
    const auto type = normalizer.value("type", "");
    if (type == "Sequence") {
      for (const json& part : normalizer.at("normalizers")) read_normalizer(part);
    } else if (type == "Precompiled") {
      spaces_.chars_map = from_base64(normalizer.at("precompiled_charsmap").get<std::string>());
    } else if (type == "Strip") {
      spaces_.removes_extra_spaces = true;
    } else if (type == "Prepend" && normalizer.value("prepend", "") == kSpaceMark) {
      spaces_.has_dummy_prefix = true;
    } else if (type == "Replace" && replaces_spaces(normalizer)) {
      // Several spaces, or each.
      spaces_.removes_extra_spaces |= normalizer.at("pattern").contains("Regex");
    } else {
      refuse(fmt::format("the normalizer {}", type),
             "Precompiled, Strip, Replace of spaces or none");
    }
  }

  void read_pre_tokenizer(const json& pre_tokenizer) {
    if (pre_tokenizer.is_null()) return;
    const auto type = pre_tokenizer.value("type", "");
    if (type == "Sequence" && pre_tokenizer.at("pretokenizers").size() == 1)
      return read_pre_tokenizer(pre_tokenizer.at("pretokenizers").front());
    if (type != "Metaspace" || pre_tokenizer.value("replacement", kSpaceMark) != kSpaceMark)
      refuse(fmt::format("the pre-tokenizer {}", type), "Metaspace");
    const auto scheme = pre_tokenizer.value(
        "prepend_scheme", pre_tokenizer.value("add_prefix_space", true) ? "always" : "never");
    spaces_.has_dummy_prefix = scheme != "never";
  }

  std::string message() const {
    ProtobufMessage whole;
    for (const Piece& piece : pieces_) {
      ProtobufMessage one;
      one.put_bytes(kPieceText, piece.text);
      one.put_float(kPieceScore, static_cast<float>(piece.score));
      one.put_integer(kPieceType, static_cast<int64_t>(piece.type));
      whole.put_bytes(kPieces, one.bytes());
    }
    ProtobufMessage trainer;
    trainer.put_integer(kModelType,
                        static_cast<int64_t>(is_bpe_ ? ModelType::kBpe : ModelType::kUnigram));
    trainer.put_integer(kVocabularySize, std::ssize(pieces_));
    trainer.put_integer(kByteFallback, has_bytes_ ? 1 : 0);
    trainer.put_integer(kUnknownId, static_cast<int64_t>(*unknown_));
    trainer.put_bytes(kUnknownPiece, pieces_[*unknown_].text);
    if (!padding_.empty()) trainer.put_bytes(kPaddingPiece, padding_);
    whole.put_bytes(kTrainer, trainer.bytes());
    ProtobufMessage normalizer;
    normalizer.put_bytes(kNormalizerName, spaces_.chars_map.empty() ? "identity" : "precompiled");
    normalizer.put_bytes(kCharsMap, spaces_.chars_map);
    normalizer.put_integer(kDummyPrefix, spaces_.has_dummy_prefix ? 1 : 0);
    normalizer.put_integer(kRemovesExtraSpaces, spaces_.removes_extra_spaces ? 1 : 0);
    normalizer.put_integer(kEscapesSpaces, 1);
    whole.put_bytes(kNormalizer, normalizer.bytes());
    return whole.bytes();
  }

  const fs::path& path_;
  const json& tokenizer_;
  std::vector<Piece> pieces_;
  std::map<std::string, size_t, std::less<>> numbers_;
  std::optional<size_t> unknown_;
  std::string padding_;
  SpaceRules spaces_;
  bool is_bpe_ = false;
  bool has_bytes_ = false;
};

json parsed(const fs::path& path) {
  return json::parse(read_text_file(path), nullptr, /*allow_exceptions=*/false);
}

}  // namespace

bool is_tokenizer_json(const fs::path& path) {
  std::error_code failed;
  if (path.extension() != ".json" || !fs::is_regular_file(path, failed)) return false;
  const json tokenizer = parsed(path);
  return tokenizer.is_object() && tokenizer.contains("model") && tokenizer.at("model").is_object();
}

std::string sentence_piece_of_json(const fs::path& path) {
  const json tokenizer = parsed(path);
  try {
    if (tokenizer.is_object()) return Converter(path, tokenizer).convert();
  } catch (const json::exception& error) {
    throw DataError({.attempted = fmt::format("reading the tokenizer {}", path.string()),
                     .found = fmt::format("a value of another type ({})", error.what()),
                     .expected = "a tokenizer.json of Hugging Face's tokenizers",
                     .hint = "If it was copied or downloaded, copy or download it again."});
  }
  throw DataError({.attempted = fmt::format("reading the tokenizer {}", path.string()),
                   .found = "a file that is not a JSON object",
                   .expected = "a tokenizer.json of Hugging Face's tokenizers",
                   .hint = "If it was copied or downloaded, copy or download it again."});
}

}  // namespace sotto::data
