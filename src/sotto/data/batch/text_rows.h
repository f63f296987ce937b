// A text cut into rows of the sequence length: the items of a language model, in place of
// utterances. Row i has the tokens from i * length on, across documents, so that all rows except
// the last are full and every token is an input once per epoch.
#pragma once

#include <cstdint>

#include "sotto/data/batch/source.h"
#include "sotto/data/text/token_file.h"

namespace sotto::data {

class TextRows : public Source {
 public:
  struct Options {
    // Tokens per row.
    int64_t length = 512;
    // The documents in a row, or the parts of them that it contains, are its segments: attention
    // does not cross them, and positions restart in each. False: a row is one segment.
    bool separates_documents = true;
  };

  // `path`: the path of the text, for messages.
  TextRows(std::filesystem::path path, TokenFile tokens, const Options& options);

  const TokenFile& tokens() const { return tokens_; }
  int64_t length() const { return options_.length; }

  // Returns a row by its index. The label of a token is the next token, even if that is the first
  // of the next row; the last token of a separate document has none, nor has the last of the text.
  Example row(int64_t number) const;

  std::string name() const override { return path_.string(); }
  std::string where(int64_t row) const override;
  uint64_t fingerprint() const override;
  int64_t num_items() const override { return (tokens_.size() + length() - 1) / length(); }
  int64_t utterance_at(int64_t index) const override { return index; }
  int64_t num_skipped() const override { return 0; }
  std::vector<float> lengths() const override;
  ExampleSize size_of(int64_t index) const override;
  int64_t bytes_per_row() const override { return 2 * int64_t{sizeof(int32_t)}; }
  Example dry_example(const ExampleSize& size) const override {
    return make_dry_text(size.rows, size.segments);
  }
  Example dry_at(int64_t index) const override { return row(index); }
  std::variant<Example, SkippedUtterance> load(int64_t index, int64_t) const override {
    return row(index);
  }

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  // Returns the token range of a row in the file.
  Range tokens_of(int64_t number) const;

  std::filesystem::path path_;
  TokenFile tokens_;
  Options options_;
};

}  // namespace sotto::data
