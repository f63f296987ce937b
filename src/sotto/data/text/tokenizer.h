// From text to the entries of a network's output and back: a vocabulary of characters or a model of
// SentencePiece, behind the rules that bring texts to one form.
//
//   const Tokenizer tokenizer = Tokenizer::read("runs/digits/best", rules);
//   const Tokenizer::Encoded encoded = tokenizer.encode("Enter seven!");
//   tokenizer.decode(encoded.labels);
//
// In a folder it is a vocab.json (characters, as wav2vec2 has it, with the files of transformers
// beside it) or a tokenizer.model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sotto/data/manifest/manifest.h"
#include "sotto/data/text/sentence_piece.h"
#include "sotto/data/text/text_rules.h"
#include "sotto/data/text/vocabulary.h"

namespace sotto::data {

class Tokenizer {
 public:
  struct Encoded {
    // By the rules; what labels and unknown are about.
    std::string text;
    std::vector<int32_t> labels;
    // Characters that the tokenizer lacks, each once, in their order. Labels have its entry for the
    // unknown in their place where there is one, else nothing.
    std::vector<std::string> unknown;
  };

  // Characters.
  Tokenizer(Vocabulary vocabulary, TextRules rules);
  Tokenizer(SentencePieceModel model, TextRules rules);

  // Of the characters of all transcripts, as the rules make them. Throws as TextRules::apply()
  // does.
  static Tokenizer of_characters(const Manifest& manifest, const TextRules& rules);

  // A vocab.json, a .model, or a folder with vocab.json or tokenizer.model. Throws DataError where
  // there is none or it is broken.
  static Tokenizer read(const std::filesystem::path& path, const TextRules& rules);

  // The file of a folder that read() takes; none where there is none.
  static std::optional<std::filesystem::path> find(const std::filesystem::path& folder);

  // Puts vocab.json (with tokenizer_config.json, where it was read with settings) or
  // tokenizer.model there. The rules are part of the run's configuration and are not written.
  // Throws DataError where it cannot.
  void write(const std::filesystem::path& folder) const;

  // Adds entries without text where a vocabulary of characters has fewer than these: a network's
  // head may be larger.
  void widen(int64_t size);

  const TextRules& rules() const { return rules_; }
  void set_rules(const TextRules& rules) { rules_ = rules; }
  // Entries of the network's output, the blank among them.
  int64_t size() const;
  // Of CTC. A model of SentencePiece has its <pad>, or else one more entry behind the last piece.
  int32_t blank() const;
  // What stands for characters that it lacks, where it has such an entry.
  std::optional<int32_t> unknown() const;
  // </s>, where it has one: it stands behind a document.
  std::optional<int32_t> end() const;
  // Another tokenizer, or other rules, have another one.
  uint64_t fingerprint() const;

  // May be called from several threads. Throws as TextRules::apply() does.
  Encoded encode(std::string_view text) const;

  // Whether each of these characters is one label in every text, so that texts of them alone have
  // nothing unknown and as many labels as characters (runs of spaces counted as one, and none at
  // the ends). May say no where it is so.
  bool has_each(std::span<const char32_t> characters) const;

  // What a label adds to a text, a space before it where it begins a word; nothing for those
  // without text.
  std::string piece(int32_t label) const;

  // What encode() made of a text, as decode() would write it were all of it known: a reference to
  // compare hypotheses with. Another text only where a vocabulary's settings change what it writes,
  // as do_lower_case does.
  std::string decoded_form(std::string_view text) const;

  // The text of labels, which must be below size(); the blank and others without text leave none.
  std::string decode(std::span<const int32_t> labels) const;

 private:
  // Shared, because the library's model cannot be copied, and it never changes.
  std::variant<Vocabulary, std::shared_ptr<const SentencePieceModel>> form_;
  TextRules rules_;
};

}  // namespace sotto::data
