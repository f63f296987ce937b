// A text as tokens in a file, read row by row: what a language model learns from. Two bytes a token
// where they suffice, else four; the highest bit marks the last token of a document.
//
// Such a file is a cache: it is made beside the text, or in a folder that is named, and made anew
// when the text, the tokenizer or its rules have changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "sotto/core/files/input_file.h"
#include "sotto/data/text/text_corpus.h"
#include "sotto/data/text/tokenizer.h"

namespace sotto::data {

struct TextSource {
  std::filesystem::path path;
  Documents documents = Documents::kParagraph;
  // Where the tokens are kept; empty: beside the text.
  std::filesystem::path cache = {};
};

class TokenFile {
 public:
  struct Token {
    int32_t entry = 0;
    // Of its document.
    bool is_last = false;
  };

  // The tokens of a text, with </s> behind each document where the tokenizer has it. `progress`
  // hears the bytes of text that are done, where they have to be made. Throws DataError where the
  // text cannot be read, has characters for which the tokenizer has no entry at all, or has no
  // token, and where the cache cannot be written.
  static TokenFile open(const TextSource& source, const Tokenizer& tokenizer,
                        const std::function<void(int64_t)>& progress = {});

  // Where open() keeps the tokens of a text.
  static std::filesystem::path path_for(const TextSource& source);

  int64_t size() const { return num_tokens_; }
  int64_t num_documents() const { return num_documents_; }
  // Of the documents that have characters which the tokenizer lacks.
  int64_t num_unknown() const { return num_unknown_; }
  // Of the tokens: other ones have another, as good as always.
  uint64_t fingerprint() const { return fingerprint_; }
  // Some tokens that are there. Throws DataError where the file was cut since it was opened, or
  // cannot be read. May be called from several threads at once.
  std::vector<Token> read(int64_t first, int64_t count) const;

 private:
  explicit TokenFile(InputFile file);

  InputFile file_;
  int64_t token_bytes_ = 0;
  int64_t num_tokens_ = 0;
  int64_t num_documents_ = 0;
  int64_t num_unknown_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace sotto::data
