#include "sotto/data/text_rows.h"

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/cross_entropy.h"

namespace sotto::data {

TextRows::TextRows(TokenFile tokens, int64_t length) : tokens_(std::move(tokens)), length_(length) {
  SOTTO_ASSERT(length >= 1, "rows of {}", length);
}

Example TextRows::row(int64_t number) const {
  SOTTO_ASSERT(number >= 0 && number < size(), "row {} of {}", number, size());
  const int64_t begin = number * length_;
  const int64_t end = std::min(begin + length_, tokens_.size());
  Example example;
  example.utterance = number;
  example.rows = end - begin;
  int64_t segment_begin = begin;
  for (int64_t i = begin; i < end; ++i) {
    const TokenFile::Token token = tokens_.at(i);
    example.tokens.push_back(token.entry);
    example.labels.push_back(token.is_last ? kernels::CrossEntropy::kNoTarget
                                           : tokens_.at(i + 1).entry);
    if (token.is_last || i + 1 == end) {
      example.segments.push_back(i + 1 - segment_begin);
      segment_begin = i + 1;
    }
  }
  return example;
}

}  // namespace sotto::data
