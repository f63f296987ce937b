#include "sotto/data/text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "sotto/core/error.h"

namespace sotto::data {

bool Unicode::is_available() {
  return true;
}

std::string Unicode::normalise(std::string_view text, UnicodeForm form) {
  if (form == UnicodeForm::kNone) return std::string(text);
  unsigned options = static_cast<unsigned>(UTF8PROC_STABLE) | UTF8PROC_COMPOSE;
  if (form == UnicodeForm::kNfkc) options |= UTF8PROC_COMPAT;
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

}  // namespace sotto::data
