// Unicode's property Case_Ignorable, for the final sigma of full_case.h. With utf8proc it is in
// unicode.cpp; unicode_none.cpp knows it for ASCII, and refuses other characters.
#pragma once

namespace sotto::data {

// Returns whether a character does not separate the letters of a word: an apostrophe, a mark.
bool is_case_ignorable(char32_t code);

// The same for punctuation that stands within words, such as the apostrophe: a short list.
inline bool is_within_words(char32_t code) {
  constexpr char32_t kWithinWords[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                       0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                       0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  for (const char32_t known : kWithinWords) {
    if (code == known) return true;
  }
  return false;
}

}  // namespace sotto::data
