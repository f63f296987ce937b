// Reads texts document by document: never more than one of them is in memory.
//
// A file whose name ends in .jsonl, .ndjson or .json has a JSON object with a `text` per line, and
// each is a document; a manifest is such a file. Any other file is plain text in UTF-8, where each
// line is a document, or the paragraphs up to a blank line are one.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/config/options.h"

namespace sotto::data {

enum class Documents { kLine, kParagraph };

inline constexpr std::array kDocuments = {Named{"line", Documents::kLine},
                                          Named{"paragraph", Documents::kParagraph}};

bool is_json_lines(const std::filesystem::path& path);

// The lines of a file, without their line ends.
class LineReader {
 public:
  // Throws DataError where the file cannot be read.
  explicit LineReader(const std::filesystem::path& path);

  // Returns the next line; nullptr after the last. It is valid until the next call. Throws
  // DataError, with the line's number, where it is not UTF-8 or longer than kMaxDocumentBytes.
  const std::string* next();

  int64_t line() const { return line_; }
  int64_t bytes_read() const { return bytes_read_; }
  const std::filesystem::path& path() const { return path_; }

  [[noreturn]] void refuse(const std::string& found, const std::string& expected,
                           const std::string& hint = {}) const;

 private:
  bool fill();

  std::filesystem::path path_;
  std::ifstream file_;
  std::vector<char> buffer_;
  std::string_view left_;  // rest of the buffer
  std::string current_;
  int64_t line_ = 0;
  int64_t bytes_read_ = 0;
};

// Maximum size of a document or a line.
inline constexpr size_t kMaxDocumentBytes = size_t{256} << 20;

class DocumentReader {
 public:
  struct Document {
    std::string text;
    // The text as in the file, without its last line end.
    std::string source;
  };

  DocumentReader(const std::filesystem::path& path, Documents documents);

  // Returns the next document with text; std::nullopt after the last. Throws DataError as
  // LineReader does, and for a line of JSON that is not an object with a `text`.
  std::optional<Document> next();

  int64_t bytes_read() const { return lines_.bytes_read(); }

 private:
  std::optional<Document> next_json();
  std::optional<Document> next_line();
  std::optional<Document> next_paragraph();

  LineReader lines_;
  bool is_json_;
  Documents documents_;
};

struct TextSplitOptions {
  // Fractions of the documents; the rest is for training.
  double dev = 0.10;
  double test = 0.05;
  int64_t seed = 1;
  Documents documents = Documents::kParagraph;

  void visit(OptionVisitor& visitor);
  void validate() const;
};

struct TextSplit {
  struct Part {
    std::string name;
    std::filesystem::path path;
    int64_t documents = 0;
    int64_t bytes = 0;
  };
  // train, dev, test; dev and test only if their fraction is not zero.
  std::vector<Part> parts;
};

// Writes the documents of `inputs`, whole and in order, to train, dev and test files in the new
// folder `out`. The part of a document depends only on the seed and its text: duplicates are never
// in two parts, and additional documents do not move the others. The folder is created atomically.
// `progress` receives the bytes read. Throws DataError where the inputs cannot be read or are of
// two kinds, a part stays empty, or `out` cannot be written or is not empty.
TextSplit split_text(const std::vector<std::filesystem::path>& inputs,
                     const std::filesystem::path& out, const TextSplitOptions& options,
                     const std::function<void(int64_t)>& progress = {});

}  // namespace sotto::data
