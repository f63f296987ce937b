// Upper and lower case as in Python's str.upper() and str.lower(), including characters that map to
// several ("ß" is "SS") and the final sigma: equivalent to transformers' do_lower_case. Beyond
// ASCII they need utf8proc (unicode.h).
#pragma once

#include <string>
#include <string_view>

namespace sotto::data {

// Returns the upper case of one character: one to three characters.
std::u32string full_upper(char32_t code);

// Returns `text`, which must be UTF-8, in lower case.
std::string full_lower(std::string_view text);

}  // namespace sotto::data
