// A text cut into rows of the sequence length: what a language model takes in the place of
// utterances. Row i has the tokens from i * length on, whatever documents they are of, so that all
// rows but the last are full and every token is once the input in an epoch.
#pragma once

#include <cstdint>

#include "sotto/data/dataset.h"
#include "sotto/data/token_file.h"

namespace sotto::data {

class TextRows {
 public:
  TextRows(TokenFile tokens, int64_t length);

  const TokenFile& tokens() const { return tokens_; }
  int64_t length() const { return length_; }
  int64_t size() const { return (tokens_.size() + length_ - 1) / length_; }

  // A row by its number. Its documents, or what it has of them, are its segments: attention does
  // not look from one into another, and positions begin anew in each. The label of a token is the
  // one behind it, also where that is the first of the next row; the last of a document has none.
  // May be called from several threads.
  Example row(int64_t number) const;

 private:
  TokenFile tokens_;
  int64_t length_;
};

}  // namespace sotto::data
