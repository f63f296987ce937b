#include "sotto/data/text/token_trie.h"

#include <algorithm>

namespace sotto::data {

void TokenTrie::add(std::u32string_view token) {
  size_t node = 0;
  for (const char32_t code : token) {
    const auto [entry, is_new] = nodes_[node].next.try_emplace(code, nodes_.size());
    node = entry->second;
    if (is_new) nodes_.emplace_back();
  }
  nodes_[node].is_end = true;
}

size_t TokenTrie::step(size_t node, char32_t code) const {
  const auto found = nodes_[node].next.find(code);
  return found == nodes_[node].next.end() ? 0 : found->second;
}

TokenTrie::Match TokenTrie::longest(const std::vector<Partial>& partial, size_t found,
                                    std::u32string_view text, size_t current) const {
  const size_t own_start = partial[found].start;
  Match match{.start = own_start, .end = current};
  // The earliest start wins, even if that match ends later.
  for (size_t i = 0; i <= found && match.start == own_start; ++i) {
    size_t at = i < found ? current + 1 : current;
    size_t node = partial[i].node;
    if (nodes_[node].is_end) match = {.start = partial[i].start, .end = at};
    while (at < text.size()) {
      node = step(node, text[at]);
      if (node == 0) break;
      ++at;
      if (nodes_[node].is_end) match = {.start = partial[i].start, .end = at};
    }
  }
  return match;
}

std::vector<std::u32string> TokenTrie::split(std::u32string_view text) const {
  std::vector<Match> matches;
  std::vector<Partial> partial;
  size_t skipped_until = 0;
  for (size_t current = 0; current < text.size(); ++current) {
    if (current < skipped_until) continue;
    std::vector<Partial> grown;
    bool is_matched = false;
    for (size_t i = 0; i < partial.size() && !is_matched; ++i) {
      // A match that does not continue here stays in the list until the character is done, as in
      // transformers.
      if (nodes_[partial[i].node].is_end) {
        matches.push_back(longest(partial, i, text, current));
        skipped_until = matches.back().end;
        is_matched = true;
      } else if (const size_t node = step(partial[i].node, text[current]); node != 0) {
        partial[i].node = node;
        grown.push_back(partial[i]);
      }
    }
    partial = is_matched ? std::vector<Partial>{} : std::move(grown);
    if (current < skipped_until) continue;
    if (const size_t node = step(0, text[current]); node != 0)
      partial.push_back({.start = current, .node = node});
  }
  const auto whole =
      std::ranges::find_if(partial, [&](const Partial& one) { return nodes_[one.node].is_end; });
  if (whole != partial.end()) matches.push_back({.start = whole->start, .end = text.size()});

  std::vector<std::u32string> pieces;
  size_t at = 0;
  const auto cut = [&](size_t end) {
    if (end > at) pieces.emplace_back(text.substr(at, end - at));
    at = std::max(at, end);
  };
  for (const Match& match : matches) {
    cut(match.start);
    cut(match.end);
  }
  cut(text.size());
  return pieces;
}

}  // namespace sotto::data
