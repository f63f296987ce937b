// SentencePiece models (BPE and unigram), using its library. A build without it has
// sentence_piece_none.cpp, where reading and training throw a ConfigError that names the package.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

class SentencePieceModel {
 public:
  // Parses the bytes of a .model file; `source` names it in errors. Throws DataError where they are
  // not a model.
  static SentencePieceModel parse(std::string bytes, const std::string& source);

  ~SentencePieceModel();
  SentencePieceModel(SentencePieceModel&& other) noexcept;
  SentencePieceModel& operator=(SentencePieceModel&&) = delete;
  SentencePieceModel(const SentencePieceModel&) = delete;
  SentencePieceModel& operator=(const SentencePieceModel&) = delete;

  // The bytes given to parse().
  const std::string& bytes() const { return bytes_; }

  // Returns the number of pieces, including those without text.
  int64_t size() const;
  // Special pieces, if the model has them.
  std::optional<int32_t> padding() const;
  std::optional<int32_t> end() const;
  // Returns <unk>, which every model has.
  int32_t unknown() const;

  // Returns the pieces of a text. Unknown parts become <unk>, and are added to `unknown` as they
  // are in the text, each once. Thread-safe.
  std::vector<int32_t> encode(std::string_view text, std::vector<std::string>& unknown) const;

  // Returns the text of one piece, with a leading space if it begins a word.
  std::string piece(int32_t piece) const;
  // Returns the text of pieces, which must be the model's; those without text are skipped.
  std::string decode(std::span<const int32_t> pieces) const;

 private:
  struct Processor;

  SentencePieceModel(std::string bytes, std::unique_ptr<Processor> processor);

  std::string bytes_;
  std::unique_ptr<Processor> processor_;
};

struct SentencePieceTraining {
  enum class Kind { kBpe, kUnigram };

  Kind kind = Kind::kBpe;
  // Number of pieces, including <pad>, <unk> and </s>, which are 0, 1 and 2.
  int64_t size = 10'000;
  // Fraction of the texts' characters that get a piece; the rarest others become <unk>.
  double character_coverage = 1.0;
};

// Returns the bytes of a model trained on these texts, deterministically. They are used unchanged:
// rules must have been applied. Throws DataError where the texts do not yield this many pieces.
std::string train_sentence_piece(const std::vector<std::string>& texts,
                                 const SentencePieceTraining& training);

}  // namespace sotto::data
