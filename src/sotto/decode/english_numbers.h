// Numbers in English words as digits, as EnglishNumberNormalizer of transformers writes them:
// "twenty-one dollars" is "$21", "one oh one" is "101", "two hundred and tenth" is "210th".
#pragma once

#include <string>

namespace sotto::decode {

// `text`: in lower case, words separated by spaces.
std::u32string numbers_as_digits(const std::u32string& text);

}  // namespace sotto::decode
