// Operations of Python's `str` and `re` on texts of code points, with its classes of characters:
// what Whisper's normalisers are written in.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/data/text/unicode.h"

namespace sotto::decode {

// Returns the general category; for ASCII also in a build without utf8proc.
data::CharacterKind kind_of(char32_t code);

// Return whether a character matches \s, \d or \w.
bool is_python_space(char32_t code);
bool is_python_digit(char32_t code);
bool is_python_word(char32_t code);

inline bool is_ascii_digit(char32_t code) {
  return code >= '0' && code <= '9';
}

// Returns whether \b matches before the character at `at`.
bool is_boundary(std::u32string_view text, size_t at);

// Returns the end of the white space that begins at `at`.
size_t end_of_spaces(std::u32string_view text, size_t at);

// str.split() and " ".join().
std::vector<std::u32string> split_at_spaces(std::u32string_view text);
std::u32string join_with_spaces(const std::vector<std::u32string>& words);

// A literal text that ends at a boundary, and begins at one if `is_whole`.
struct WordRule {
  std::u32string_view text;
  std::u32string_view replacement;
  bool is_whole = true;
};
// Replaces all occurrences, from the left.
std::u32string replace_words(std::u32string_view text, const WordRule& rule);

}  // namespace sotto::decode
