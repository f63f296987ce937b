#include "sotto/data/text/text_corpus.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/files/text_file.h"
#include "sotto/core/hash.h"
#include "sotto/core/rng.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr const char* kExpected = "text in UTF-8";
constexpr const char* kUnpack = "If it is compressed, unpack it first.";

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

// A file that is written in large pieces.
class PartFile {
 public:
  PartFile(TextSplit::Part part, const fs::path& path)
      : part_(std::move(part)), file_(OutputFile::create(path)) {}

  void add(const std::string& document, std::string_view separator) {
    buffer_ += document;
    buffer_ += separator;
    ++part_.documents;
    if (buffer_.size() >= kBufferBytes) flush();
  }
  TextSplit::Part finish() {
    flush();
    file_.sync();
    file_.close();
    return part_;
  }

 private:
  void flush() {
    file_.write(std::as_bytes(std::span(buffer_)));
    part_.bytes += std::ssize(buffer_);
    buffer_.clear();
  }

  TextSplit::Part part_;
  OutputFile file_;
  std::string buffer_;
};

void check_inputs(const std::vector<fs::path>& inputs, const fs::path& out) {
  SOTTO_ASSERT(!inputs.empty(), "no text to split");
  for (const fs::path& input : inputs) {
    if (is_json_lines(input) == is_json_lines(inputs.front())) continue;
    throw DataError({.attempted = "splitting texts",
                     .found = fmt::format("{} and {}", inputs.front().string(), input.string()),
                     .expected = "JSON lines alone, or plain text alone"});
  }
  std::error_code ignored;
  if (!fs::exists(out, ignored) || (fs::is_directory(out, ignored) && fs::is_empty(out, ignored)))
    return;
  throw DataError({.attempted = fmt::format("splitting texts into {}", out.string()),
                   .found = "it exists and is not an empty folder",
                   .expected = "a new or empty folder",
                   .hint = "Name another with --out."});
}

// Returns the part of a document, derived from its text and the seed.
size_t part_of(const std::string& text, const TextSplitOptions& options) {
  const RandomStream stream(
      {.seed = static_cast<uint64_t>(options.seed), .purpose = Purpose::kShuffle},
      {.utterance = hash_bytes(text)});
  const double draw = static_cast<double>(stream.bits(0)) * 0x1p-32;
  if (draw < options.dev) return 1;
  return draw < options.dev + options.test ? 2 : 0;
}

[[noreturn]] void refuse_empty(const std::string& name, int64_t num_documents) {
  throw DataError({.attempted = "splitting texts",
                   .found = fmt::format("{} has none of {} document{}", name, num_documents,
                                        num_documents == 1 ? "" : "s"),
                   .expected = "documents in every part",
                   .hint = "Use more text, another --seed, or --documents line if each line is a "
                           "document."});
}

}  // namespace

bool is_json_lines(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
}

LineReader::LineReader(const fs::path& path) : path_(path), buffer_(kBufferBytes) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) refuse("it is a folder", "a text file");
  errno = 0;
  file_.open(path, std::ios::binary);
  if (!file_) refuse(std::generic_category().message(errno), "a text file");
}

void LineReader::refuse(const std::string& found, const std::string& expected,
                        const std::string& hint) const {
  const std::string prefix = line_ > 0 ? fmt::format("line {}: ", line_) : "";
  throw DataError({.attempted = fmt::format("reading {}", path_.string()),
                   .found = prefix + found,
                   .expected = expected,
                   .hint = hint});
}

bool LineReader::fill() {
  file_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  if (file_.bad()) refuse("it could not be read", "a text file");
  left_ = {buffer_.data(), static_cast<size_t>(file_.gcount())};
  bytes_read_ += std::ssize(left_);
  return !left_.empty();
}

const std::string* LineReader::next() {
  current_.clear();
  ++line_;
  bool is_whole = false;
  bool has_any = false;
  while (!is_whole && (!left_.empty() || fill())) {
    has_any = true;
    const size_t end = left_.find('\n');
    is_whole = end != std::string_view::npos;
    current_ += left_.substr(0, end);
    left_.remove_prefix(is_whole ? end + 1 : left_.size());
    if (current_.size() > kMaxDocumentBytes)
      refuse("a line of more than 256 MiB", "shorter lines", kUnpack);
  }
  if (!has_any) return nullptr;
  if (line_ == 1 && current_.starts_with("\xEF\xBB\xBF")) current_.erase(0, 3);
  if (current_.ends_with('\r')) current_.pop_back();
  if (!is_utf8(current_)) refuse("bytes that are not UTF-8", kExpected, kUnpack);
  return &current_;
}

DocumentReader::DocumentReader(const fs::path& path, Documents documents)
    : lines_(path), is_json_(is_json_lines(path)), documents_(documents) {}

std::optional<DocumentReader::Document> DocumentReader::next() {
  if (is_json_) return next_json();
  return documents_ == Documents::kLine ? next_line() : next_paragraph();
}

std::optional<DocumentReader::Document> DocumentReader::next_json() {
  while (const std::string* line = lines_.next()) {
    if (is_blank(*line)) continue;
    const nlohmann::json json = nlohmann::json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("text") || !json["text"].is_string())
      lines_.refuse(json.is_discarded() ? "it is not JSON" : "no text",
                    "an object with a text, such as {\"text\": \"enter seven\"}");
    auto text = json["text"].get<std::string>();
    if (!is_blank(text)) return Document{.text = std::move(text), .source = *line};
  }
  return std::nullopt;
}

std::optional<DocumentReader::Document> DocumentReader::next_line() {
  while (const std::string* line = lines_.next()) {
    if (!is_blank(*line)) return Document{.text = *line, .source = *line};
  }
  return std::nullopt;
}

std::optional<DocumentReader::Document> DocumentReader::next_paragraph() {
  std::string text;
  while (const std::string* line = lines_.next()) {
    if (!is_blank(*line)) {
      if (!text.empty()) text += '\n';
      text += *line;
      if (text.size() > kMaxDocumentBytes)
        lines_.refuse("a document of more than 256 MiB", "blank lines between documents",
                      "--documents line makes each line a document.");
    } else if (!text.empty()) {
      break;
    }
  }
  if (text.empty()) return std::nullopt;
  return Document{.text = text, .source = text};
}

void TextSplitOptions::visit(OptionVisitor& visitor) {
  visitor.value("dev", dev, "fraction of the documents for evaluation", {.min = 0.0, .below = 1.0});
  visitor.value("test", test, "fraction of the documents for testing", {.min = 0.0, .below = 1.0});
  visitor.value("seed", seed, "random seed of the split", {.min = 0});
  visitor.choice("documents", documents, "unit of plain text that is a document", kDocuments);
}

void TextSplitOptions::validate() const {
  if (dev >= 0.0 && test >= 0.0 && dev + test < 1.0) return;
  throw ConfigError({.attempted = "splitting texts",
                     .found = fmt::format("shares of {} and {}", dev, test),
                     .expected = "shares of 0 or more, below 1 together"});
}

TextSplit split_text(const std::vector<fs::path>& inputs, const fs::path& out,
                     const TextSplitOptions& options,
                     const std::function<void(int64_t)>& progress) {
  options.validate();
  check_inputs(inputs, out);
  const bool is_json = is_json_lines(inputs.front());
  AtomicFolder folder(out);
  std::vector<PartFile> files;
  for (const char* name : {"train", "dev", "test"}) {
    const std::string file = fmt::format("{}.{}", name, is_json ? "jsonl" : "txt");
    files.emplace_back(TextSplit::Part{.name = name, .path = out / file}, folder.path() / file);
  }
  const bool has_blank_lines = !is_json && options.documents == Documents::kParagraph;
  int64_t bytes_before = 0;
  int64_t num_documents = 0;
  for (const fs::path& input : inputs) {
    DocumentReader reader(input, options.documents);
    while (const std::optional<DocumentReader::Document> document = reader.next()) {
      files[part_of(document->text, options)].add(document->source,
                                                  has_blank_lines ? "\n\n" : "\n");
      ++num_documents;
      if (progress) progress(bytes_before + reader.bytes_read());
    }
    bytes_before += reader.bytes_read();
  }
  TextSplit split;
  const std::array<double, 3> shares = {1.0, options.dev, options.test};
  for (size_t i = 0; i < files.size(); ++i) {
    TextSplit::Part part = files[i].finish();
    if (shares[i] == 0.0) {
      fs::remove(folder.path() / part.path.filename());
      continue;
    }
    if (part.documents == 0) refuse_empty(part.name, num_documents);
    split.parts.push_back(std::move(part));
  }
  folder.commit();
  return split;
}

}  // namespace sotto::data
