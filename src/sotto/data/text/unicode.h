// Unicode properties of characters beyond ASCII, using utf8proc. A build without it has
// unicode_none.cpp, where everything except is_available() throws a ConfigError that names the
// package.
#pragma once

#include <string>
#include <string_view>

namespace sotto::data {

enum class UnicodeForm { kNone, kNfc, kNfkc };

struct Unicode {
  static bool is_available();

  // Returns `text`, which must be UTF-8, in that form.
  static std::string normalise(std::string_view text, UnicodeForm form);

  // Maps one character to one: characters that Unicode maps to several stay unchanged.
  static char32_t lower(char32_t code);
  static char32_t upper(char32_t code);

  // Returns whether it is in the categories P (punctuation) or S (symbols).
  static bool is_punctuation(char32_t code);
};

}  // namespace sotto::data
