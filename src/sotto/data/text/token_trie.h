// Tokens of several characters found in a text: the longest of those that begin first. It cuts a
// text at the same places as the Trie of transformers (tokenization_python.py), whose tokenizers
// label by it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

class TokenTrie {
 public:
  // The token must not be empty.
  void add(std::u32string_view token);

  // The text in pieces: tokens, and what lies between them. Pieces are never empty.
  std::vector<std::u32string> split(std::u32string_view text) const;

 private:
  struct Node {
    std::map<char32_t, size_t> next;
    bool is_end = false;
  };
  // A match that may still grow.
  struct Partial {
    size_t start;
    size_t node;
  };
  struct Match {
    size_t start;
    size_t end;
  };

  // The node after `code`; 0, which is the root, where there is none.
  size_t step(size_t node, char32_t code) const;
  // The longest match of the partial ones up to the one at `found`, which is whole; those before it
  // have already seen the character at `current`.
  Match longest(const std::vector<Partial>& partial, size_t found, std::u32string_view text,
                size_t current) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace sotto::data
