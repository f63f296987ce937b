// Whisper's normalisers, for the texts that an evaluation compares: the same results as
// BasicTextNormalizer and EnglishTextNormalizer of transformers. Published error rates of Whisper
// are those of normalised texts.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "sotto/core/config/options.h"

namespace sotto::decode {

enum class NormalizerKind { kNone, kBasic, kEnglish };

inline constexpr std::array kNormalizerKinds = {Named{"none", NormalizerKind::kNone},
                                                Named{"basic", NormalizerKind::kBasic},
                                                Named{"english", NormalizerKind::kEnglish}};

// British spellings with their American ones.
using Spellings = std::map<std::u32string, std::u32string>;

// Parses a normalizer.json of a Whisper model; `source` names it in errors. Throws DataError where
// it is not an object of words.
Spellings parse_spellings(std::string_view text, const std::string& source);

class TextNormalizer {
 public:
  struct Options {
    NormalizerKind kind = NormalizerKind::kBasic;
    // For `basic`: marks on letters are removed; each character becomes a word.
    bool removes_diacritics = false;
    bool splits_letters = false;
    // For `english`.
    Spellings spellings = {};
  };

  explicit TextNormalizer(Options options);

  // Normalises a text, which must be UTF-8. `basic`: lower case, without anything in brackets, and
  // with a space for each symbol. `english`: also without hesitations; contractions and titles are
  // written out, numbers in digits, words in American spelling. Thread-safe.
  std::string apply(std::string_view text) const;

 private:
  std::string basic(std::string_view text) const;
  std::string english(std::string_view text) const;

  Options options_;
};

}  // namespace sotto::decode
