#include "sotto/core/nearest.h"

#include <algorithm>
#include <vector>

namespace sotto {

namespace {

size_t count_edits(std::string_view a, std::string_view b) {
  // edits[i][j]: edit distance from the first i letters of a to the first j letters of b.
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        edits[i][j] = i + j;
        continue;
      }
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      edits[i][j] =
          std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  std::optional<std::string> best;
  size_t fewest = 0;
  for (const std::string& candidate : known) {
    const size_t edits = count_edits(word, candidate);
    if (edits > std::max(word.size(), candidate.size()) / 2) continue;
    if (!best || edits < fewest) {
      best = candidate;
      fewest = edits;
    }
  }
  return best;
}

}  // namespace sotto
