// Reads small text files as a whole: configurations, vocabularies, model descriptions. Any mistaken
// path (a folder, a checkpoint, nothing) results in a DataError that describes what it is.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sotto {

// Returns the content of a file, without a byte order mark. Throws DataError where it is missing,
// not a file, unreadable, empty, larger than 16 MiB, binary, or not UTF-8.
std::string read_text_file(const std::filesystem::path& path);

// Returns whether `text` is well-formed UTF-8: no overlong forms, no surrogates, nothing above
// U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace sotto
