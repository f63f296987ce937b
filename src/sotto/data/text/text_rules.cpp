#include "sotto/data/text/text_rules.h"

#include <algorithm>
#include <cctype>

#include "sotto/core/error.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/utf8.h"

namespace sotto::data {

namespace {

bool is_apostrophe(char32_t code) {
  return code == '\'' || code == 0x2019;
}

bool is_punctuation(char32_t code) {
  return code < 0x80 ? std::ispunct(static_cast<int>(code)) != 0 : Unicode::is_punctuation(code);
}

char32_t in_case(char32_t code, LetterCase letter_case) {
  switch (letter_case) {
    case LetterCase::kKeep: return code;
    case LetterCase::kLower:
      if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code;
      return Unicode::lower(code);
    case LetterCase::kUpper:
      if (code < 0x80) return code >= 'a' && code <= 'z' ? code - ('a' - 'A') : code;
      return Unicode::upper(code);
  }
  return code;
}

std::string normalise(std::string text, UnicodeForm form) {
  // ASCII text is already normalised.
  if (form == UnicodeForm::kNone || is_ascii(text)) return text;
  return Unicode::normalise(text, form);
}

// Applies case, punctuation and whitespace rules, character by character.
std::string rewrite(const std::string& text, const TextRules& rules) {
  std::string made;
  made.reserve(text.size());
  bool has_space = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    at += character.size();
    const char32_t code = code_point_of(character);
    const bool is_removed = rules.punctuation == Punctuation::kRemove && is_punctuation(code) &&
                            rules.keep_characters.find(character) == std::string::npos;
    if (is_white_space(code) || (is_removed && !is_apostrophe(code))) {
      has_space = !made.empty();
    } else if (!is_removed) {
      if (has_space) made += ' ';
      has_space = false;
      append_utf8(made, in_case(code, rules.letter_case));
    }
  }
  return made;
}

}  // namespace

void TextRules::visit(OptionVisitor& visitor) {
  visitor.choice("unicode", unicode, "Unicode normalisation form", kUnicodeForms);
  visitor.choice("case", letter_case, "case of letters", kLetterCases);
  visitor.choice("punctuation", punctuation, "punctuation and symbols", kPunctuations);
  visitor.value("keep_characters", keep_characters,
                "characters to keep when punctuation is removed, such as '-");
}

void TextRules::validate() const {
  if (unicode == UnicodeForm::kNfkc && !Unicode::is_available()) {
    throw ConfigError({.attempted = "setting up the text rules",
                       .found = "unicode: nfkc, in a build without utf8proc",
                       .expected = "none, or nfc for ASCII texts",
                       .hint = "Install libutf8proc-dev and build again."});
  }
  if (!keep_characters.empty() && punctuation == Punctuation::kKeep) {
    throw ConfigError({.attempted = "setting up the text rules",
                       .found = "keep_characters with punctuation: keep",
                       .expected = "punctuation: remove, or no keep_characters"});
  }
  if (!is_utf8(keep_characters)) {
    throw ConfigError({.attempted = "setting up the text rules",
                       .found = "keep_characters that are not UTF-8",
                       .expected = "characters in UTF-8"});
  }
}

std::string TextRules::apply(std::string_view text) const {
  if (!is_utf8(text)) {
    throw DataError({.attempted = "applying the text rules",
                     .found = "bytes that are not UTF-8",
                     .expected = "text in UTF-8"});
  }
  std::string made = rewrite(normalise(std::string(text), unicode), *this);
  if (letter_case == LetterCase::kKeep && punctuation == Punctuation::kKeep) return made;
  // Characters of another case may compose, and a removed mark may have separated two characters.
  return normalise(made, unicode);
}

bool TextRules::keeps_each(std::span<const char32_t> characters) const {
  // First code point of the combining marks, which join the preceding character.
  constexpr char32_t kFirstMark = 0x300;
  return std::ranges::all_of(characters, [&](char32_t character) {
    std::string text;
    append_utf8(text, character);
    return character < kFirstMark && (character == U' ' || apply(text) == text);
  });
}

}  // namespace sotto::data
