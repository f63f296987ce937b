// Checks the table by which a SentencePiece model normalises characters. The library walks it
// without looking at its bounds, and files come from anywhere.
#pragma once

#include <string>
#include <string_view>

namespace sotto::data {

// `chars_map`: precompiled_charsmap of the model. Throws DataError where a text could lead outside
// of it. `source` is for errors.
void check_chars_map(std::string_view chars_map, const std::string& source);

// Does the same for the bytes of a model, which may have no such table.
void check_chars_map_of_model(std::string_view model, const std::string& source);

}  // namespace sotto::data
