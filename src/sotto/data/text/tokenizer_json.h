// tokenizer.json of Hugging Face's tokenizers: BPE or unigram over words that begin with a mark for
// a space (Metaspace). It becomes the SentencePiece model that splits texts alike.
#pragma once

#include <filesystem>
#include <string>

namespace sotto::data {

// Returns whether a file is such a tokenizer; false where it cannot be read.
bool is_tokenizer_json(const std::filesystem::path& path);

// Returns the bytes of the SentencePiece model. Its padding, the blank of CTC, is <blank>, else
// <pad>. Throws DataError where the file is broken, ConfigError where SentencePiece cannot express
// it.
std::string sentence_piece_of_json(const std::filesystem::path& path);

}  // namespace sotto::data
