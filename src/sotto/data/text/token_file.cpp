#include "sotto/data/text/token_file.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/hash.h"
#include "sotto/core/parallel.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

// Follows the tokens, because its content is known only then. In native byte order: a cache is not
// moved to another machine.
struct Foot {
  uint64_t magic = 0;
  uint32_t format_version = 0;
  uint32_t token_bytes = 0;
  // Identifies the input of the tokens.
  uint64_t text_bytes = 0;
  int64_t text_time = 0;
  uint64_t tokenizer = 0;
  uint64_t documents_are = 0;
  // Describes the tokens.
  uint64_t num_tokens = 0;
  uint64_t num_documents = 0;
  uint64_t num_unknown = 0;
  uint64_t fingerprint = 0;
};
static_assert(sizeof(Foot) == 80);

constexpr uint64_t kMagic = 0x6E656B6F7474746F;  // "otttoken"
constexpr uint32_t kFormatVersion = 1;
// Bytes of text that the threads encode at a time.
constexpr size_t kBatchBytes = size_t{4} << 20;

Foot foot_for(const TextSource& source, const Tokenizer& tokenizer) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(source.path, error);
  const fs::file_time_type time = fs::last_write_time(source.path, error);
  if (error) {
    throw DataError({.attempted = fmt::format("reading {}", source.path.string()),
                     .found = error.message(),
                     .expected = "a text file"});
  }
  // The highest bit of a token marks the end of a document.
  const bool is_small = tokenizer.size() <= int64_t{1} << 15;
  return {.magic = kMagic,
          .format_version = kFormatVersion,
          .token_bytes = is_small ? 2u : 4u,
          .text_bytes = bytes,
          .text_time = time.time_since_epoch().count(),
          .tokenizer = tokenizer.fingerprint(),
          .documents_are = static_cast<uint64_t>(source.documents)};
}

std::optional<Foot> foot_of(const InputFile& file) {
  constexpr auto kFootBytes = static_cast<int64_t>(sizeof(Foot));
  if (file.size() < kFootBytes) return std::nullopt;
  Foot foot;
  const int64_t tokens_bytes = file.size() - kFootBytes;
  file.read_all(tokens_bytes, {reinterpret_cast<char*>(&foot), sizeof(Foot)});
  const bool is_ours = foot.magic == kMagic && foot.format_version == kFormatVersion &&
                       (foot.token_bytes == 2 || foot.token_bytes == 4) &&
                       static_cast<uint64_t>(tokens_bytes) / foot.token_bytes == foot.num_tokens;
  return is_ours ? std::optional(foot) : std::nullopt;
}

bool is_of_same(const Foot& kept, const Foot& wanted) {
  return kept.token_bytes == wanted.token_bytes && kept.text_bytes == wanted.text_bytes &&
         kept.text_time == wanted.text_time && kept.tokenizer == wanted.tokenizer &&
         kept.documents_are == wanted.documents_are;
}

// Encodes documents on all cores, in order.
std::vector<Tokenizer::Encoded> encode_all(const std::vector<std::string>& texts,
                                           const Tokenizer& tokenizer) {
  std::vector<Tokenizer::Encoded> encoded(texts.size());
  parallel_for(std::ssize(texts), [&](int64_t number) {
    const auto i = static_cast<size_t>(number);
    encoded[i] = tokenizer.encode(texts[i]);
  });
  return encoded;
}

// Writes tokens and collects the values of the foot.
class TokenWriter {
 public:
  TokenWriter(const fs::path& path, const Foot& foot)
      : file_(OutputFile::create(path)), foot_(foot) {}

  void add(const Tokenizer::Encoded& document, std::optional<int32_t> end) {
    if (document.labels.empty()) return;
    buffer_.clear();
    for (const int32_t label : document.labels) put(static_cast<uint32_t>(label));
    if (end) put(static_cast<uint32_t>(*end));
    // Little-endian: the mark is in the last byte.
    buffer_.back() = static_cast<char>(static_cast<unsigned char>(buffer_.back()) | 0x80U);
    hash_ = hash_combine(hash_, hash_bytes(buffer_));
    file_.write(std::as_bytes(std::span(buffer_)));
    ++foot_.num_documents;
    if (!document.unknown.empty()) ++foot_.num_unknown;
  }

  void finish() {
    foot_.fingerprint = hash_;
    file_.write(std::as_bytes(std::span(&foot_, 1)));
    file_.sync();
    file_.close();
  }

  uint64_t num_tokens() const { return foot_.num_tokens; }

 private:
  void put(uint32_t token) {
    for (uint32_t byte = 0; byte < foot_.token_bytes; ++byte)
      buffer_ += static_cast<char>(token >> (8 * byte) & 0xFFU);
    ++foot_.num_tokens;
  }

  OutputFile file_;
  Foot foot_;
  uint64_t hash_ = 0;
  std::string buffer_;
};

void check_known(const TextSource& source, const Tokenizer& tokenizer,
                 const Tokenizer::Encoded& document) {
  if (document.unknown.empty() || tokenizer.unknown()) return;
  throw DataError({.attempted = fmt::format("encoding {}", source.path.string()),
                   .found = fmt::format("characters '{}', which the tokenizer does not have",
                                        fmt::join(document.unknown, "', '")),
                   .expected = "a tokenizer for this text, or one with <unk>"});
}

void write_tokens(const TextSource& source, const Tokenizer& tokenizer, TokenWriter& writer,
                  const std::function<void(int64_t)>& progress) {
  DocumentReader reader(source.path, source.documents);
  for (bool is_end = false; !is_end;) {
    std::vector<std::string> texts;
    for (size_t bytes = 0; bytes < kBatchBytes && !is_end;) {
      std::optional<DocumentReader::Document> document = reader.next();
      is_end = !document;
      if (is_end) break;
      bytes += document->text.size();
      texts.push_back(std::move(document->text));
    }
    for (const Tokenizer::Encoded& document : encode_all(texts, tokenizer)) {
      check_known(source, tokenizer, document);
      writer.add(document, tokenizer.end());
    }
    if (progress) progress(reader.bytes_read());
  }
  if (writer.num_tokens() > 0) return;
  throw DataError({.attempted = fmt::format("encoding {}", source.path.string()),
                   .found = "no text",
                   .expected = "documents to learn from"});
}

// Written to a temporary file, then renamed: if two processes do so concurrently, the result is one
// of the two, complete.
void make_tokens(const TextSource& source, const Tokenizer& tokenizer, const Foot& foot,
                 const std::function<void(int64_t)>& progress) {
  const fs::path path = TokenFile::path_for(source);
  std::error_code error;
  if (!source.cache.empty()) fs::create_directories(source.cache, error);
  const fs::path aside =
      path.parent_path() /
      fmt::format(".{}.partial-{}", path.filename().string(), static_cast<int64_t>(getpid()));
  try {
    TokenWriter writer(aside, foot);
    write_tokens(source, tokenizer, writer, progress);
    writer.finish();
    fs::rename(aside, path);
  } catch (...) {
    fs::remove(aside, error);
    throw;
  }
}

}  // namespace

TokenFile::TokenFile(InputFile file) : file_(std::move(file)) {
  const Foot foot = *foot_of(file_);
  token_bytes_ = foot.token_bytes;
  num_tokens_ = static_cast<int64_t>(foot.num_tokens);
  num_documents_ = static_cast<int64_t>(foot.num_documents);
  num_unknown_ = static_cast<int64_t>(foot.num_unknown);
  fingerprint_ = foot.fingerprint;
}

fs::path TokenFile::path_for(const TextSource& source) {
  const fs::path folder = source.cache.empty() ? source.path.parent_path() : source.cache;
  return folder / (source.path.filename().string() + ".tokens");
}

TokenFile TokenFile::open(const TextSource& source, const Tokenizer& tokenizer,
                          const std::function<void(int64_t)>& progress) {
  const fs::path path = path_for(source);
  const Foot wanted = foot_for(source, tokenizer);
  const auto open_kept = [&]() -> std::optional<TokenFile> {
    if (!fs::is_regular_file(path)) return std::nullopt;
    InputFile file = InputFile::open(path, "tokens");
    const std::optional<Foot> foot = foot_of(file);
    if (!foot || !is_of_same(*foot, wanted)) return std::nullopt;
    return TokenFile(std::move(file));
  };
  if (std::optional<TokenFile> kept = open_kept()) return std::move(*kept);
  make_tokens(source, tokenizer, wanted, progress);
  std::optional<TokenFile> made = open_kept();
  if (made) return std::move(*made);
  throw DataError({.attempted = fmt::format("encoding {}", source.path.string()),
                   .found = "it changed while it was being read",
                   .expected = "a text that does not change"});
}

std::vector<TokenFile::Token> TokenFile::read(int64_t first, int64_t count) const {
  SOTTO_ASSERT(first >= 0 && count >= 0 && count <= num_tokens_ - first, "{} tokens from {} of {}",
               count, first, num_tokens_);
  std::string bytes(static_cast<size_t>(count * token_bytes_), '\0');
  file_.read_all(first * token_bytes_, bytes);
  const uint32_t mark = uint32_t{1} << static_cast<uint32_t>(8 * token_bytes_ - 1);
  std::vector<Token> tokens;
  tokens.reserve(static_cast<size_t>(count));
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(token_bytes_)) {
    // Little-endian, like this machine.
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, static_cast<size_t>(token_bytes_));
    tokens.push_back({.entry = static_cast<int32_t>(word & ~mark), .is_last = (word & mark) != 0});
  }
  return tokens;
}

}  // namespace sotto::data
