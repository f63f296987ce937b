// Small text files of /proc and /sys: read whole, absent where they cannot be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace sotto {

// Content of the file; nothing where it cannot be read.
std::optional<std::string> read_text(const std::filesystem::path& path);

// The number a file consists of; nothing where it is absent or holds something else.
std::optional<int64_t> read_integer(const std::filesystem::path& path);

}  // namespace sotto
