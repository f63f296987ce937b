// Text from bytes that may not be UTF-8, such as the labels of a byte-level tokenizer.
#pragma once

#include <string>
#include <string_view>

namespace sotto {

// Returns the bytes as UTF-8. Each maximal part of a character that is not complete, and each byte
// that can begin none, becomes U+FFFD, as in Rust, Python and browsers.
std::string repaired_utf8(std::string_view bytes);

}  // namespace sotto
