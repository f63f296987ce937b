// Upper and lower case as Python's str.upper() and str.lower() have them, with the characters that
// become several ("ß" is "SS") and the sigma that ends a word: what transformers' do_lower_case
// does. Beyond ASCII they need utf8proc (unicode.h).
#pragma once

#include <string>
#include <string_view>

namespace sotto::data {

// The upper case of one character: one to three characters.
std::u32string full_upper(char32_t code);

// `text`, which is UTF-8, in lower case.
std::string full_lower(std::string_view text);

}  // namespace sotto::data
