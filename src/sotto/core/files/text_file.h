// Small text files, whole: configurations, vocabularies, model descriptions. Whatever a path can
// point at by mistake (a folder, a checkpoint, nothing) ends in a DataError that says what it is.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sotto {

// The content of a file, without a byte order mark. Throws DataError where it is missing, no file,
// unreadable, empty, larger than 16 MiB, binary, or not UTF-8.
std::string read_text_file(const std::filesystem::path& path);

// Whether `text` is well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace sotto
