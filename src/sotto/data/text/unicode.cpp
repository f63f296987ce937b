#include "sotto/data/text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "sotto/core/error.h"
#include "sotto/core/utf8.h"
#include "sotto/data/text/case_ignorable.h"

namespace sotto::data {

bool Unicode::is_available() {
  return true;
}

std::string Unicode::normalise(std::string_view text, UnicodeForm form) {
  if (form == UnicodeForm::kNone) return std::string(text);
  unsigned options = UTF8PROC_STABLE;
  options |= form == UnicodeForm::kNfkd ? UTF8PROC_DECOMPOSE : UTF8PROC_COMPOSE;
  if (form != UnicodeForm::kNfc) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &made,
                                             static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  SOTTO_ASSERT(size >= 0, "utf8proc: {}", utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(made), static_cast<size_t>(size)};
}

char32_t Unicode::lower(char32_t code) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

char32_t Unicode::upper(char32_t code) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}

bool Unicode::is_punctuation(char32_t code) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_SO;
}

CharacterKind Unicode::kind_of(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return CharacterKind::kLetter;
    case UTF8PROC_CATEGORY_ND: return CharacterKind::kDigit;
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return CharacterKind::kNumber;
    case UTF8PROC_CATEGORY_MN: return CharacterKind::kNonspacingMark;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return CharacterKind::kMark;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return CharacterKind::kPunctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: return CharacterKind::kSymbol;
    default: return CharacterKind::kOther;
  }
}

bool is_case_ignorable(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return is_within_words(code);
  }
}

int Unicode::digit_value(char32_t code) {
  SOTTO_ASSERT(kind_of(code) == CharacterKind::kDigit, "U+{:04X} is no digit",
               static_cast<uint32_t>(code));
  // Digits are encoded in runs that begin with a zero, ten for each style.
  char32_t zero = code;
  while (zero > 0 && kind_of(zero - 1) == CharacterKind::kDigit) --zero;
  return static_cast<int>((code - zero) % 10);
}

std::vector<std::string> Unicode::graphemes(std::string_view text) {
  std::vector<std::string> parts;
  utf8proc_int32_t state = 0;
  char32_t last = 0;
  for_each_code_point(text, [&](char32_t code) {
    const bool breaks = parts.empty() || utf8proc_grapheme_break_stateful(
                                             static_cast<utf8proc_int32_t>(last),
                                             static_cast<utf8proc_int32_t>(code), &state);
    if (breaks) parts.emplace_back();
    append_utf8(parts.back(), code);
    last = code;
  });
  return parts;
}

}  // namespace sotto::data
