// A text as tokens in a file, read row by row: the training data of a language model. Two bytes per
// token if they suffice, otherwise four; the highest bit marks the last token of a document.
//
// The file is a cache: it is created next to the text, or in a specified folder, and recreated when
// the text, the tokenizer or its rules have changed.
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
  // Folder of the token file; empty: next to the text.
  std::filesystem::path cache = {};
};

class TokenFile {
 public:
  struct Token {
    int32_t entry = 0;
    // Whether it is the last token of its document.
    bool is_last = false;
  };

  // Opens or creates the tokens of a text, with </s> after each document if the tokenizer has it.
  // `progress` receives the bytes of text that are done, if they have to be created. Throws
  // DataError where the text cannot be read, has characters for which the tokenizer has no entry at
  // all, or has no token, and where the cache cannot be written.
  static TokenFile open(const TextSource& source, const Tokenizer& tokenizer,
                        const std::function<void(int64_t)>& progress = {});

  // Returns the path where open() stores the tokens of a text.
  static std::filesystem::path path_for(const TextSource& source);

  int64_t size() const { return num_tokens_; }
  int64_t num_documents() const { return num_documents_; }
  // Number of documents with characters that the tokenizer lacks.
  int64_t num_unknown() const { return num_unknown_; }
  // Hash of the tokens: different ones have a different hash, with near certainty.
  uint64_t fingerprint() const { return fingerprint_; }
  // Reads some of the existing tokens. Throws DataError where the file was truncated after it was
  // opened, or cannot be read. Thread-safe.
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
