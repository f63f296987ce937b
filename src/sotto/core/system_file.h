// Small text files of /proc and /sys, read as a whole; treated as absent if they cannot be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace sotto {

// Returns the content of a file; std::nullopt if it cannot be read.
std::optional<std::string> read_text(const std::filesystem::path& path);

// Returns the integer that a file consists of; std::nullopt if it is absent or holds something
// else.
std::optional<int64_t> read_integer(const std::filesystem::path& path);

}  // namespace sotto
