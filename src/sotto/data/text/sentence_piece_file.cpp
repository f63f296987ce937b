#include "sotto/data/text/sentence_piece_file.h"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "sotto/core/error.h"
#include "sotto/core/formats/protobuf_message.h"
#include "sotto/core/formats/protobuf_reader.h"
#include "sotto/data/text/sentence_piece_fields.h"

namespace sotto::data {

namespace {

// The name of a piece that no model has.
constexpr std::string_view kNoPiece = "<no padding>";

StoredPiece read_piece(std::string_view message, const std::string& source) {
  StoredPiece piece;
  ProtobufReader fields(message, source);
  while (const std::optional<ProtobufReader::Field> field = fields.next()) {
    if (field->number == kPieceText) piece.text = field->bytes;
    if (field->number == kPieceScore) piece.score = field->as_float();
    if (field->number == kPieceType)
      piece.is_unknown = static_cast<PieceType>(field->integer) == PieceType::kUnknown;
  }
  return piece;
}

// Fields that follow replace earlier ones of the same number, in messages inside as well.
std::string trainer_field(const std::function<void(ProtobufMessage&)>& put) {
  ProtobufMessage trainer;
  put(trainer);
  ProtobufMessage model;
  model.put_bytes(kTrainer, trainer.bytes());
  return model.bytes();
}

}  // namespace

std::vector<StoredPiece> stored_pieces(std::string_view model, const std::string& source) {
  std::vector<StoredPiece> pieces;
  ProtobufReader fields(model, source);
  while (const std::optional<ProtobufReader::Field> field = fields.next())
    if (field->number == kPieces) pieces.push_back(read_piece(field->bytes, source));
  return pieces;
}

std::string without_piece(std::string_view model, int64_t piece, const std::string& source) {
  std::string copy;
  int64_t number = 0;
  ProtobufReader fields(model, source);
  while (const std::optional<ProtobufReader::Field> field = fields.next()) {
    const bool is_dropped = field->number == kPieces && number++ == piece;
    if (!is_dropped) copy += field->whole;
  }
  SOTTO_ASSERT(piece < number, "piece {} of {}", piece, number);
  copy += trainer_field(
      [&](ProtobufMessage& trainer) { trainer.put_integer(kVocabularySize, number - 1); });
  return without_padding(copy);
}

std::string without_padding(std::string_view model) {
  const std::string change = trainer_field([](ProtobufMessage& trainer) {
    trainer.put_integer(kPaddingId, -1);
    trainer.put_bytes(kPaddingPiece, kNoPiece);
  });
  return std::string(model) + (model.ends_with(change) ? "" : change);
}

}  // namespace sotto::data
