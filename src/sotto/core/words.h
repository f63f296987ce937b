// Splits text at blanks and line ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// Returns `text` without leading and trailing blanks, tabs and line ends.
std::string_view trimmed(std::string_view text);

// Returns the words of `text`, separated by blanks, tabs and line ends.
std::vector<std::string> split_words(std::string_view text);

// Returns the lines of `text`, without their line ends.
std::vector<std::string_view> split_lines(std::string_view text);

// Returns the integer that `text` consists of, ignoring blanks around it; std::nullopt for "max",
// any other text, and a number outside the range of int64_t.
std::optional<int64_t> parse_integer(std::string_view text);

}  // namespace sotto
