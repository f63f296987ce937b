// Spelling suggestions: finds the known word that a mistyped one most likely meant, for the "did
// you mean" hints of commands, options and configuration keys.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sotto {

// Returns the word of `known` with the smallest edit distance to `word` (insertion, deletion,
// substitution, or transposition of neighbours); std::nullopt if more than half of the letters
// would change.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

}  // namespace sotto
