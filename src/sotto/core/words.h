// Texts taken apart at blanks and line ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// `text` without blanks, tabs and line ends around it.
std::string_view trimmed(std::string_view text);

// The words of `text` between them.
std::vector<std::string> split_words(std::string_view text);

// The parts of `text` between line ends.
std::vector<std::string_view> split_lines(std::string_view text);

// The whole number that `text` consists of, blanks around it aside; nothing for "max", for another
// text and for a number beyond int64_t.
std::optional<int64_t> parse_integer(std::string_view text);

}  // namespace sotto
