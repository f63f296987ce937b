// Numbers of the fields of a SentencePiece model (sentencepiece_model.proto), and its values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sotto::data {

// The mark that stands for a space in pieces.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

enum ModelField : uint32_t { kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5 };
enum PieceField : uint32_t { kPieceText = 1, kPieceScore = 2, kPieceType = 3 };
enum TrainerField : uint32_t {
  kModelType = 3,
  kVocabularySize = 4,
  kSpaceEndsWords = 24,
  kByteFallback = 35,
  kUnknownId = 40,
  kPaddingId = 43,
  kUnknownPiece = 45,
  kPaddingPiece = 48
};
enum NormalizerField : uint32_t {
  kNormalizerName = 1,
  kCharsMap = 2,
  kDummyPrefix = 3,
  kRemovesExtraSpaces = 4,
  kEscapesSpaces = 5
};
enum class PieceType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUser = 4,
  kUnused = 5,
  kByte = 6
};
enum class ModelType : int64_t { kUnigram = 1, kBpe = 2, kWord = 3, kCharacter = 4 };

struct Piece {
  std::string text;
  double score = 0.0;
  PieceType type = PieceType::kNormal;
};

}  // namespace sotto::data
