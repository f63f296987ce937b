#include "sotto/core/error.h"
#include "sotto/data/text/unicode.h"

namespace sotto::data {

namespace {

[[noreturn]] void refuse() {
  throw ConfigError({.attempted = "applying the rules of texts",
                     .found = "characters beyond ASCII, in a build without utf8proc",
                     .expected = "a build with it",
                     .hint = "Install libutf8proc-dev and build again; or set unicode: none, case: "
                             "keep and punctuation: keep, which take texts as they are."});
}

}  // namespace

bool Unicode::is_available() {
  return false;
}

std::string Unicode::normalise(std::string_view text, UnicodeForm form) {
  if (form != UnicodeForm::kNone) refuse();
  return std::string(text);
}

char32_t Unicode::lower(char32_t /*code*/) {
  refuse();
}

char32_t Unicode::upper(char32_t /*code*/) {
  refuse();
}

bool Unicode::is_punctuation(char32_t /*code*/) {
  refuse();
}

}  // namespace sotto::data
