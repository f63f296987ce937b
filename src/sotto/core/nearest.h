// The known word that a mistyped one most likely meant: for the "did you mean" of commands, options
// and configuration keys.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sotto {

// The word of `known` with the fewest edits (a letter added, dropped, changed, or two neighbours
// swapped) from `word`; nothing where more than half of the letters would change.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

}  // namespace sotto
