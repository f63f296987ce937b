// Iteration over the characters of UTF-8 text. All functions require text for which is_utf8()
// (text_file.h) holds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sotto {

inline bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

// Returns the bytes of the character that begins at `at`.
inline std::string_view character_at(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  return text.substr(at, end - at);
}

// Returns the code point of a character.
inline char32_t code_point_of(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return lead;
  char32_t code = lead & (0xFFU >> (character.size() + 1));
  for (const char c : character.substr(1))
    code = code << 6U | (static_cast<unsigned char>(c) & 0x3FU);
  return code;
}

// Calls `visit` with each code point in order.
template <class Visit>
void for_each_code_point(std::string_view text, Visit visit) {
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = character_at(text, at);
    visit(code_point_of(character));
    at += character.size();
  }
}

inline void append_utf8(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0U | code >> 6U);
  } else {
    if (code < 0x10000) {
      add(0xE0U | code >> 12U);
    } else {
      add(0xF0U | code >> 18U);
      add(0x80U | (code >> 12U & 0x3FU));
    }
    add(0x80U | (code >> 6U & 0x3FU));
  }
  add(0x80U | (code & 0x3FU));
}

// Conversions from text to code points and back.
inline std::u32string code_points_of(std::string_view text) {
  std::u32string codes;
  for_each_code_point(text, [&](char32_t code) { codes += code; });
  return codes;
}

inline std::string to_utf8(std::u32string_view codes) {
  std::string text;
  for (const char32_t code : codes) append_utf8(text, code);
  return text;
}

}  // namespace sotto
