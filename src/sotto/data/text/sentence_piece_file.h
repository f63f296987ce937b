// Files of SentencePiece models as they are stored (sentencepiece_model.proto): their pieces, and
// copies with other pieces. For formats that count the blank differently; SentencePieceModel
// encodes and decodes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

struct StoredPiece {
  // With U+2581 for a space.
  std::string text;
  float score = 0.0F;
  // Whether it stands for text that has no piece.
  bool is_unknown = false;
};

// Returns the pieces of a model in order. `source` names it in errors. Throws DataError where it is
// broken.
std::vector<StoredPiece> stored_pieces(std::string_view model, const std::string& source);

// Returns a copy without one piece; all that follow move up.
std::string without_piece(std::string_view model, int64_t piece, const std::string& source);

// Returns a copy in which no piece is the padding, so that the blank follows the last piece; the
// same bytes if it is such a copy.
std::string without_padding(std::string_view model);

}  // namespace sotto::data
