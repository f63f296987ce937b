// How texts are brought to one form before they are encoded: transcripts, the texts that a
// vocabulary is made of, and the references of an evaluation, so that like is compared with like.
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
  // Which of the ways to write one character is taken.
  UnicodeForm unicode = UnicodeForm::kNfc;
  LetterCase letter_case = LetterCase::kKeep;
  // Punctuation and symbols. What is removed leaves a space, so that words stay apart; an
  // apostrophe leaves none.
  Punctuation punctuation = Punctuation::kKeep;
  // Characters that stay whatever `punctuation` says, one behind the other: "'-".
  std::string keep_characters = {};

  void visit(OptionVisitor& visitor);
  // Throws ConfigError; also for a form that this build cannot make.
  void validate() const;

  // The text by these rules. Whitespace of any kind becomes one space between words, and none at
  // the ends. Applied twice it changes nothing more. Throws DataError where the text is not UTF-8,
  // ConfigError where it has characters that only a missing library knows.
  std::string apply(std::string_view text) const;

  // Whether texts of these characters alone stay as they are, but for runs of spaces. May say no
  // where they would.
  bool keeps_each(std::span<const char32_t> characters) const;

  friend bool operator==(const TextRules&, const TextRules&) = default;
};

}  // namespace sotto::data
