// Models of SentencePiece (BPE and unigram), by its library. A build without it has
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
  // The bytes of a .model file; `source` names it in errors. Throws DataError where they are none.
  static SentencePieceModel parse(std::string bytes, const std::string& source);

  ~SentencePieceModel();
  SentencePieceModel(SentencePieceModel&& other) noexcept;
  SentencePieceModel& operator=(SentencePieceModel&&) = delete;
  SentencePieceModel(const SentencePieceModel&) = delete;
  SentencePieceModel& operator=(const SentencePieceModel&) = delete;

  // What parse() took.
  const std::string& bytes() const { return bytes_; }

  // Pieces, those without text among them.
  int64_t size() const;
  // Where the model has them.
  std::optional<int32_t> padding() const;
  std::optional<int32_t> end() const;
  // <unk>: every model has it.
  int32_t unknown() const;

  // The pieces of a text. What the model does not know stands as its <unk>, and is added to
  // `unknown` as it stands in the text, each once. May be called from several threads.
  std::vector<int32_t> encode(std::string_view text, std::vector<std::string>& unknown) const;

  // The text of one piece, with a space before it where it begins a word.
  std::string piece(int32_t piece) const;
  // The text of pieces, which must be the model's; those without text leave none.
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
  // Pieces, with <pad>, <unk> and </s>, which are 0, 1 and 2.
  int64_t size = 10'000;
  // Share of the texts' characters that get a piece; the rarest others become <unk>.
  double character_coverage = 1.0;
};

// The bytes of a model of these texts, the same for the same texts. They are taken as they are:
// rules have been applied. Throws DataError where the texts do not give so many pieces.
std::string train_sentence_piece(const std::vector<std::string>& texts,
                                 const SentencePieceTraining& training);

}  // namespace sotto::data
