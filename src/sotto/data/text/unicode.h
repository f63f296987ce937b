// Unicode properties of characters beyond ASCII, using utf8proc. A build without it has
// unicode_none.cpp, where everything except is_available() throws a ConfigError that names the
// package.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

enum class UnicodeForm { kNone, kNfc, kNfkc, kNfkd };

// General categories, as far as something here depends on them.
enum class CharacterKind {
  kLetter,          // L
  kDigit,           // Nd
  kNumber,          // Nl, No
  kNonspacingMark,  // Mn
  kMark,            // Mc, Me
  kPunctuation,     // P
  kSymbol,          // S
  kOther            // Z, C
};

// Returns whether it has Unicode's property White_Space: a short list that does not change.
inline bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

struct Unicode {
  static bool is_available();

  // Returns `text`, which must be UTF-8, in that form.
  static std::string normalise(std::string_view text, UnicodeForm form);

  // Maps one character to one: characters that Unicode maps to several stay unchanged.
  static char32_t lower(char32_t code);
  static char32_t upper(char32_t code);

  // Returns whether it is in the categories P (punctuation) or S (symbols).
  static bool is_punctuation(char32_t code);

  static CharacterKind kind_of(char32_t code);

  // Returns the value of a decimal digit of any script, 0 to 9.
  static int digit_value(char32_t code);

  // Splits a text, which must be UTF-8, into what readers see as one character each.
  static std::vector<std::string> graphemes(std::string_view text);
};

}  // namespace sotto::data
