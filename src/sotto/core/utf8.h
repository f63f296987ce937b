// Code points of well-formed UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sotto {

// Calls `visit` with each code point in turn. `text` must be UTF-8 (is_utf8() of text_file.h).
template <class Visit>
void for_each_code_point(std::string_view text, Visit visit) {
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t code = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    for (size_t i = 1; i < length && at + i < text.size(); ++i)
      code = code << 6U | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
    visit(code);
    at += length;
  }
}

inline void append_utf8(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6U);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12U);
    put(0x80 | (code >> 6U & 0x3FU));
  } else {
    put(0xF0 | code >> 18U);
    put(0x80 | (code >> 12U & 0x3FU));
    put(0x80 | (code >> 6U & 0x3FU));
  }
  put(0x80 | (code & 0x3FU));
}

}  // namespace sotto
