// Finds tokens of several characters in a text: the longest of those that begin first. It cuts a
// text at the same positions as the Trie of transformers (tokenization_python.py), which its
// tokenizers use.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::data {

class TokenTrie {
 public:
  // Adds a token, which must not be empty.
  void add(std::u32string_view token);

  // Splits the text into pieces: tokens, and the text between them. Pieces are never empty.
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

  // Returns the node after `code`; 0, which is the root, if there is none.
  size_t step(size_t node, char32_t code) const;
  // Returns the longest match of the partial ones up to the one at `found`, which is complete;
  // those before it have already seen the character at `current`.
  Match longest(const std::vector<Partial>& partial, size_t found, std::u32string_view text,
                size_t current) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace sotto::data
