// Normalisation of texts before they are encoded: transcripts, the texts from which a vocabulary is
// built, and the references of an evaluation, so that all are comparable.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "sotto/core/config/options.h"
#include "sotto/data/text/unicode.h"

namespace sotto::data {

enum class LetterCase { kKeep, kLower, kUpper };
enum class Punctuation { kKeep, kRemove };

inline constexpr std::array kUnicodeForms = {Named{"none", UnicodeForm::kNone},
                                             Named{"nfc", UnicodeForm::kNfc},
                                             Named{"nfkc", UnicodeForm::kNfkc}};
inline constexpr std::array kLetterCases = {Named{"keep", LetterCase::kKeep},
                                            Named{"lower", LetterCase::kLower},
                                            Named{"upper", LetterCase::kUpper}};
inline constexpr std::array kPunctuations = {Named{"keep", Punctuation::kKeep},
                                             Named{"remove", Punctuation::kRemove}};

struct TextRules {
  // Unicode normalisation form.
  UnicodeForm unicode = UnicodeForm::kNfc;
  LetterCase letter_case = LetterCase::kKeep;
  // Treatment of punctuation and symbols. Removed ones leave a space, so that words stay apart; an
  // apostrophe leaves none.
  Punctuation punctuation = Punctuation::kKeep;
  // Characters that are kept regardless of `punctuation`, concatenated: "'-".
  std::string keep_characters = {};

  void visit(OptionVisitor& visitor);
  // Throws ConfigError; also for a form that this build does not support.
  void validate() const;

  // Applies these rules to a text. Whitespace of any kind becomes one space between words, and is
  // removed at the ends. Idempotent. Throws DataError where the text is not UTF-8, ConfigError
  // where it has characters that require a missing library.
  std::string apply(std::string_view text) const;

  // Returns whether texts of only these characters stay unchanged, except for runs of spaces. May
  // return false although they would.
  bool keeps_each(std::span<const char32_t> characters) const;

  friend bool operator==(const TextRules&, const TextRules&) = default;
};

}  // namespace sotto::data
