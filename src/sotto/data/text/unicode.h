// What Unicode says of characters beyond ASCII, by utf8proc. A build without it has
// unicode_none.cpp, where all but is_available() throw a ConfigError that names the package.
#pragma once

#include <string>
#include <string_view>

namespace sotto::data {

enum class UnicodeForm { kNone, kNfc, kNfkc };

struct Unicode {
  static bool is_available();

  // `text`, which is UTF-8, in that form.
  static std::string normalise(std::string_view text, UnicodeForm form);

  // One character for one: what Unicode maps to several stays as it is.
  static char32_t lower(char32_t code);
  static char32_t upper(char32_t code);

  // Of the categories P (punctuation) and S (symbols).
  static bool is_punctuation(char32_t code);
};

}  // namespace sotto::data
