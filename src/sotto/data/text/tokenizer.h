// Converts text to the entries of a network's output and back: a vocabulary of characters, a
// SentencePiece model or a byte-level BPE, combined with the rules that normalise texts.
//
//   const Tokenizer tokenizer = Tokenizer::read("runs/digits/best", rules);
//   const Tokenizer::Encoded encoded = tokenizer.encode("Enter seven!");
//   tokenizer.decode(encoded.labels);
//
// In a folder it is a vocab.json (characters, in wav2vec2's format, together with the files of
// transformers), a vocab.json with a merges.txt (byte-level BPE), a tokenizer.model, or a
// tokenizer.json of Hugging Face's tokenizers.
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
#include "sotto/data/text/byte_bpe.h"
#include "sotto/data/text/sentence_piece.h"
#include "sotto/data/text/text_rules.h"
#include "sotto/data/text/tokenizer_json_writer.h"
#include "sotto/data/text/vocabulary.h"

namespace sotto::data {

class Tokenizer {
 public:
  struct Encoded {
    // The text after the rules, to which labels and unknown refer.
    std::string text;
    std::vector<int32_t> labels;
    // Characters that the tokenizer lacks, each once, in order. Labels have the unknown entry in
    // their place if there is one, otherwise nothing.
    std::vector<std::string> unknown;
  };

  // Creates a tokenizer of characters.
  Tokenizer(Vocabulary vocabulary, TextRules rules);
  Tokenizer(SentencePieceModel model, TextRules rules);
  Tokenizer(ByteBpe model, TextRules rules);

  // Builds a tokenizer from the characters of all transcripts after the rules. Throws as
  // TextRules::apply() does.
  static Tokenizer of_characters(const Manifest& manifest, const TextRules& rules);

  // Reads a vocab.json (with merges.txt, if there is one), a .model, a tokenizer.json, or a folder
  // with one of them, or the model in a `.nemo` archive. Throws DataError where there is none or it
  // is broken.
  static Tokenizer read(const std::filesystem::path& path, const TextRules& rules);

  // Returns the file of a folder that read() uses; std::nullopt if there is none.
  static std::optional<std::filesystem::path> find(const std::filesystem::path& folder);

  // Writes vocab.json (with tokenizer_config.json, if it was read with settings), tokenizer.model,
  // or the files of a byte-level BPE to the folder. The rules are part of the run's configuration
  // and are not written. Throws DataError where it cannot be written.
  void write(const std::filesystem::path& folder) const;

  // Returns the tokenizer.json with which transformers splits texts alike (text rules are not part
  // of it). `blank` names the blank where it is not an entry of a SentencePiece model. std::nullopt
  // where there is none: tokenizer_json_writer.h.
  std::optional<TokenizersFile> for_transformers(std::string_view blank) const;

  // Adds entries without text up to this size to a vocabulary of characters or a byte-level BPE: a
  // network's head may be larger.
  void widen(int64_t size);

  const TextRules& rules() const { return rules_; }
  void set_rules(const TextRules& rules) { rules_ = rules; }
  // Number of entries of the network's output, including the blank.
  int64_t size() const;
  // The blank of CTC. For a SentencePiece model its <pad>, for a byte-level BPE its pad_token or
  // <|endoftext|>; or an additional entry after the last one.
  int32_t blank() const;
  // The entry for unknown characters, if there is one.
  std::optional<int32_t> unknown() const;
  // </s>, or the eos_token of a byte-level BPE, if there is one: it follows a document.
  std::optional<int32_t> end() const;
  // Returns the bytes of a SentencePiece model; none for other tokenizers.
  std::optional<std::string> sentence_piece() const;
  // A different tokenizer, or different rules, have a different fingerprint.
  uint64_t fingerprint() const;

  // Encodes a text. Thread-safe. Throws as TextRules::apply() does.
  Encoded encode(std::string_view text) const;

  // Returns whether each of these characters is one label in every text, so that texts of only
  // these have nothing unknown and as many labels as characters (runs of spaces counted as one,
  // none at the ends). May return false although it is so.
  bool has_each(std::span<const char32_t> characters) const;

  // Returns the text of a label, with a leading space if it begins a word; empty for labels without
  // text. For a byte-level BPE it may be a part of a character.
  std::string piece(int32_t label) const;

  // Returns the result of encode() as decode() would write it if all of it were known: a reference
  // to compare hypotheses with. Differs from the text only if a vocabulary's settings change its
  // output, as do_lower_case does.
  std::string decoded_form(std::string_view text) const;

  // Returns the text of labels, which must be below size(); the blank and other labels without text
  // are skipped. For a byte-level BPE without the spaces at its ends, which texts never have after
  // the rules.
  std::string decode(std::span<const int32_t> labels) const;

  // Returns the byte-level BPE; null for another kind.
  const ByteBpe* byte_bpe() const;

 private:
  // Shared, because these cannot be copied, and are immutable.
  std::variant<Vocabulary, std::shared_ptr<const SentencePieceModel>,
               std::shared_ptr<const ByteBpe>>
      form_;
  TextRules rules_;
  // Entries of the network's head, where it has more than a byte-level BPE.
  int64_t head_size_ = 0;
};

}  // namespace sotto::data
