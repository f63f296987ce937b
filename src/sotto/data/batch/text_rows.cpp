#include "sotto/data/batch/text_rows.h"

#include <algorithm>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/kernels/loss/cross_entropy.h"

namespace sotto::data {

TextRows::TextRows(std::filesystem::path path, TokenFile tokens, const Options& options)
    : path_(std::move(path)), tokens_(std::move(tokens)), options_(options) {
  SOTTO_ASSERT(options.length >= 1, "rows of {}", options.length);
}

std::string TextRows::where(int64_t row) const {
  return fmt::format("{}, row {} of {} tokens", name(), row + 1, options_.length);
}

uint64_t TextRows::fingerprint() const {
  const uint64_t fingerprint =
      hash_combine(tokens_.fingerprint(), static_cast<uint64_t>(options_.length));
  return options_.separates_documents ? fingerprint : hash_combine(fingerprint, 1);
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
  if (!options_.separates_documents) return size;
  // A document that ends inside the row leaves room for another.
  for (const TokenFile::Token& token : tokens_.read(begin, end - begin - 1)) {
    if (token.is_last) ++size.segments;
  }
  return size;
}

TextRows::Range TextRows::tokens_of(int64_t number) const {
  SOTTO_ASSERT(number >= 0 && number < num_items(), "row {} of {}", number, num_items());
  const int64_t begin = number * options_.length;
  return {.begin = begin, .end = std::min(begin + options_.length, tokens_.size())};
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
    // The last token of the text has no next token, whatever documents are.
    const bool ends_document =
        tokens[i].is_last && (options_.separates_documents || i + 1 == tokens.size());
    example.tokens.push_back(tokens[i].entry);
    example.labels.push_back(ends_document ? kernels::CrossEntropy::kNoTarget
                                           : tokens.at(i + 1).entry);
    if (ends_document || i + 1 == num_rows) {
      example.segments.push_back(static_cast<int64_t>(i + 1 - segment_begin));
      segment_begin = i + 1;
    }
  }
  return example;
}

}  // namespace sotto::data
