#include "sotto/data/batch/text_rows.h"

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/kernels/loss/cross_entropy.h"

namespace sotto::data {

TextRows::TextRows(std::filesystem::path path, TokenFile tokens, int64_t length)
    : path_(std::move(path)), tokens_(std::move(tokens)), length_(length) {
  SOTTO_ASSERT(length >= 1, "rows of {}", length);
}

std::string TextRows::where(int64_t row) const {
  return fmt::format("{}, row {} of {} tokens", name(), row + 1, length_);
}

uint64_t TextRows::fingerprint() const {
  return hash_combine(tokens_.fingerprint(), static_cast<uint64_t>(length_));
}

std::vector<float> TextRows::lengths() const {
  std::vector<float> lengths;
  lengths.reserve(static_cast<size_t>(num_items()));
  for (int64_t row = 0; row < num_items(); ++row) {
    const auto [begin, end] = tokens_of(row);
    lengths.push_back(static_cast<float>(end - begin));
  }
  return lengths;
}

ExampleSize TextRows::size_of(int64_t index) const {
  const auto [begin, end] = tokens_of(index);
  ExampleSize size{.rows = end - begin, .labels = end - begin};
  // A document that ends inside the row leaves room for another.
  for (const TokenFile::Token& token : tokens_.read(begin, end - begin - 1)) {
    if (token.is_last) ++size.segments;
  }
  return size;
}

TextRows::Range TextRows::tokens_of(int64_t number) const {
  SOTTO_ASSERT(number >= 0 && number < num_items(), "row {} of {}", number, num_items());
  const int64_t begin = number * length_;
  return {.begin = begin, .end = std::min(begin + length_, tokens_.size())};
}

Example TextRows::row(int64_t number) const {
  const auto [begin, end] = tokens_of(number);
  Example example;
  example.utterance = number;
  example.rows = end - begin;
  // Includes the token after the row, if there is one: it is the label of the last.
  const std::vector<TokenFile::Token> tokens =
      tokens_.read(begin, std::min(end + 1, tokens_.size()) - begin);
  const auto num_rows = static_cast<size_t>(example.rows);
  size_t segment_begin = 0;
  for (size_t i = 0; i < num_rows; ++i) {
    example.tokens.push_back(tokens[i].entry);
    example.labels.push_back(tokens[i].is_last ? kernels::CrossEntropy::kNoTarget
                                               : tokens.at(i + 1).entry);
    if (tokens[i].is_last || i + 1 == num_rows) {
      example.segments.push_back(static_cast<int64_t>(i + 1 - segment_begin));
      segment_begin = i + 1;
    }
  }
  return example;
}

}  // namespace sotto::data
