// Small text files of /proc and /sys: read whole, absent where they cannot be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::device {

// Content of the file; nothing where it cannot be read.
std::optional<std::string> read_text(const std::filesystem::path& path);

// The whole number that `text` consists of, blanks around it aside; nothing for "max", for another
// text and for a number beyond int64_t.
std::optional<int64_t> parse_integer(std::string_view text);

// The number a file consists of; nothing where it is absent or holds something else.
std::optional<int64_t> read_integer(const std::filesystem::path& path);

// `text` without blanks and line ends around it.
std::string_view trimmed(std::string_view text);

// The words of `text` between blanks and line ends.
std::vector<std::string> split_words(std::string_view text);

// The parts of `text` between line ends.
std::vector<std::string_view> split_lines(std::string_view text);

}  // namespace sotto::device
