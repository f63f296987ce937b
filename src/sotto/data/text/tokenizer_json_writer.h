// Writes tokenizer.json of Hugging Face's tokenizers for a SentencePiece model or a vocabulary of
// characters: transformers then splits texts into the same entries.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/data/text/vocabulary.h"

namespace sotto::data {

struct TokenizersFile {
  // The contents of tokenizer.json, as text.
  std::string text;
  // The name of each entry there, by number.
  std::vector<std::string> entries;
  // Whether it is special: it has no text.
  std::vector<bool> is_special;
};

// For the bytes of a SentencePiece model. has_blank: the blank is one of its pieces; otherwise it
// is another entry after the last, called `blank`. std::nullopt where tokenizers cannot express the
// model: words of a list, or words that end with a space.
std::optional<TokenizersFile> tokenizers_file_of(std::string_view model, bool has_blank,
                                                 std::string_view blank);

// For a vocabulary of characters; std::nullopt where it has other entries or settings.
std::optional<TokenizersFile> tokenizers_file_of(const Vocabulary& vocabulary);

}  // namespace sotto::data
