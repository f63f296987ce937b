#include "sotto/core/error.h"
#include "sotto/data/text/case_ignorable.h"
#include "sotto/data/text/unicode.h"

namespace sotto::data {

namespace {

[[noreturn]] void refuse() {
  throw ConfigError({.attempted = "applying the text rules",
                     .found = "characters beyond ASCII, in a build without utf8proc",
                     .expected = "a build with utf8proc",
                     .hint = "Install libutf8proc-dev and build again; or set unicode: none, case: "
                             "keep and punctuation: keep, which leave texts unchanged."});
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

CharacterKind Unicode::kind_of(char32_t /*code*/) {
  refuse();
}

bool is_case_ignorable(char32_t code) {
  if (code >= 0x80) refuse();
  return code == '^' || code == '`' || is_within_words(code);
}

int Unicode::digit_value(char32_t /*code*/) {
  refuse();
}

std::vector<std::string> Unicode::graphemes(std::string_view /*text*/) {
  refuse();
}

}  // namespace sotto::data
