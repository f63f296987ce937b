#include "sotto/data/manifest/manifest_index.h"

#include <malloc.h>

#include <array>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/files/cache_folder.h"
#include "sotto/core/files/input_file.h"
#include "sotto/core/files/log.h"
#include "sotto/core/hash.h"
#include "sotto/core/utf8.h"
#include "sotto/data/manifest/manifest_columns.h"
#include "sotto/data/manifest/manifest_scan.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "a manifest: JSON lines, one utterance per line";

// The beginning of an index; followed by the columns in the order of ManifestIndex::Columns, then a
// JSON object with the small values.
struct Header {
  std::array<char, 8> magic = {'s', 'o', 't', 't', 'o', 'i', 'd', 'x'};
  uint64_t version = 1;
  int64_t manifest_bytes = 0;
  int64_t changed_ns = 0;
  uint64_t num_utterances = 0;
  uint64_t tail_bytes = 0;
  // Checksum of all fields above.
  uint64_t checksum = 0;

  uint64_t own_checksum() const {
    return hash_bytes({reinterpret_cast<const char*>(this), offsetof(Header, checksum)});
  }
};

constexpr uint64_t kEntryBytes = sizeof(uint64_t) + 6 * sizeof(uint32_t);
static_assert(kEntryBytes == 32);
static_assert(sizeof(float) == sizeof(uint32_t));

uint64_t fingerprint_of(const ManifestScan& scan, const ColumnStore& columns) {
  uint64_t fingerprint = columns.num_utterances();
  for (size_t piece = 0; piece < columns.num_pieces(); ++piece) {
    const std::vector<std::byte> num_bytes = columns.read(piece, ManifestColumns::kNumBytes);
    const std::vector<std::byte> hashes = columns.read(piece, ManifestColumns::kHashes);
    for (size_t at = 0; at < hashes.size(); at += sizeof(uint32_t)) {
      uint32_t length = 0;
      uint32_t hash = 0;
      std::memcpy(&length, num_bytes.data() + at, sizeof(length));
      std::memcpy(&hash, hashes.data() + at, sizeof(hash));
      fingerprint = hash_combine(fingerprint, uint64_t{length} << 32U | uint64_t{hash});
    }
  }
  for (const BadLine& bad : scan.bad_lines)
    fingerprint = hash_combine(fingerprint, static_cast<uint64_t>(bad.line));
  return fingerprint;
}

std::string tail_of(const ManifestScan& scan, const ColumnStore& columns) {
  nlohmann::json bad_lines = nlohmann::json::array();
  for (const auto& [line, fault] : scan.bad_lines)
    bad_lines.push_back({line, fault.found, fault.expected, fault.hint});
  std::string characters;
  for (const char32_t character : scan.characters) append_utf8(characters, character);
  return nlohmann::json{{"bad_lines", std::move(bad_lines)},
                        {"num_bad_lines", scan.num_bad_lines},
                        {"characters", characters},
                        {"feature_dim", scan.feature_dim},
                        {"fingerprint", fingerprint_of(scan, columns)}}
      .dump();
}

// Encodes everything in the format of the file, one part at a time.
void encode(const ManifestScan& scan, const ColumnStore& columns, const InputFile& manifest,
            const std::function<void(std::span<const std::byte>)>& put) {
  const std::string tail = tail_of(scan, columns);
  Header header;
  header.manifest_bytes = manifest.size();
  header.changed_ns = manifest.changed_ns();
  header.num_utterances = columns.num_utterances();
  header.tail_bytes = tail.size();
  header.checksum = header.own_checksum();
  put(std::as_bytes(std::span(&header, 1)));
  for (size_t column = 0; column < ManifestColumns::kCount; ++column) {
    for (size_t piece = 0; piece < columns.num_pieces(); ++piece) put(columns.read(piece, column));
  }
  put(std::as_bytes(std::span(tail)));
}

void require_utterances(const ManifestScan& scan, const ColumnStore& columns,
                        const fs::path& manifest) {
  if (columns.num_utterances() > 0) return;
  if (scan.bad_lines.empty()) refuse_file(manifest, "no utterance", kManifest, {});
  const auto& [line, fault] = scan.bad_lines.front();
  refuse_file(manifest, fmt::format("line {}: {}", line, fault.found), fault.expected, fault.hint);
}

// Reason why an index cannot be stored somewhere. Used only in this file.
struct NotStored {
  std::string reason;
};

// Distinguishes errors of the storage location from errors of the manifest.
template <class Store>
void store_or_give_up(const Store& store) {
  try {
    store();
  } catch (const Error& error) {
    // NOLINTNEXTLINE(bugprone-std-exception-baseclass): it does not leave this file
    throw NotStored{.reason = error.what()};
  }
}

// Throws NotStored, or DataError for errors of the manifest.
void write_index(const InputFile& manifest, const IndexOptions& options, const fs::path& path) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  std::optional<ColumnStore> columns;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  store_or_give_up([&] { columns.emplace(folder); });
  const ManifestScan scan = scan_manifest(manifest, options, [&](ManifestColumns piece) {
    store_or_give_up([&] { columns->add(std::move(piece)); });
  });
  require_utterances(scan, *columns, manifest.path());
  store_or_give_up([&] {
    AtomicFile file(path);
    encode(scan, *columns, manifest, [&](std::span<const std::byte> bytes) { file.write(bytes); });
    file.commit();
  });
}

// Returns the columns after a header one by one.
class ColumnReader {
 public:
  ColumnReader(std::span<const std::byte> bytes, size_t num_utterances)
      : at_(bytes.data() + sizeof(Header)), num_utterances_(num_utterances) {}

  template <class T>
  void take(std::span<const T>& column) {
    // Columns of 8 bytes come first: all are aligned.
    column = {reinterpret_cast<const T*>(at_), num_utterances_};
    at_ += num_utterances_ * sizeof(T);
  }

 private:
  const std::byte* at_;
  size_t num_utterances_;
};

fs::path beside(const fs::path& manifest) {
  return manifest.parent_path() / fmt::format(".{}.sotto-index", manifest.filename().string());
}

fs::path in_cache(const fs::path& manifest) {
  const std::string path = fs::absolute(manifest).lexically_normal().string();
  return cache_folder() / "manifests" / fmt::format("{:016x}.index", hash_bytes(path));
}

}  // namespace

bool ManifestIndex::decode(std::span<const std::byte> bytes, int64_t manifest_bytes,
                           int64_t changed_ns) {
  Header header;
  if (bytes.size() < sizeof(Header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  if (header.magic != Header().magic || header.version != Header().version ||
      header.checksum != header.own_checksum() || header.manifest_bytes != manifest_bytes ||
      header.changed_ns != changed_ns)
    return false;
  // A checksum can be forged: the product of these numbers may overflow.
  const uint64_t present = bytes.size() - sizeof(Header);
  if (header.num_utterances > present / kEntryBytes) return false;
  const size_t columns_bytes = header.num_utterances * kEntryBytes;
  if (header.tail_bytes != present - columns_bytes) return false;
  ColumnReader reader(bytes, header.num_utterances);
  reader.take(columns_.offsets);
  reader.take(columns_.num_bytes);
  reader.take(columns_.hashes);
  reader.take(columns_.lines);
  reader.take(columns_.durations_s);
  reader.take(columns_.num_frames);
  reader.take(columns_.num_characters);

  const std::span<const std::byte> tail = bytes.subspan(sizeof(Header) + columns_bytes);
  const nlohmann::json parsed =
      nlohmann::json::parse(reinterpret_cast<const char*>(tail.data()),
                            reinterpret_cast<const char*>(tail.data() + tail.size()), nullptr,
                            /*allow_exceptions=*/false);
  if (!parsed.is_object()) return false;
  // A number with a fraction or beyond 64 bits would be converted to a different one.
  for (const char* key : {"feature_dim", "fingerprint", "num_bad_lines"}) {
    if (!parsed.at(key).is_number_integer()) return false;
  }
  feature_dim_ = parsed["feature_dim"];
  fingerprint_ = parsed["fingerprint"];
  num_bad_lines_ = parsed["num_bad_lines"];
  for (const nlohmann::json& bad : parsed.at("bad_lines")) {
    if (!bad.at(0).is_number_integer()) return false;
    bad_lines_.push_back({.line = bad.at(0),
                          .fault = {.found = bad.at(1), .expected = bad.at(2), .hint = bad.at(3)}});
  }
  for_each_code_point(parsed.at("characters").get_ref<const std::string&>(),
                      [&](char32_t character) { characters_.push_back(character); });
  return true;
}

std::optional<ManifestIndex> ManifestIndex::find(const fs::path& manifest, const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return std::nullopt;
  try {
    const InputFile now = InputFile::open(manifest, kManifest);
    ManifestIndex index;
    index.mapped_.emplace(MappedFile::open(file, "an index of a manifest"));
    if (!index.decode(index.mapped_->bytes(), now.size(), now.changed_ns())) return std::nullopt;
    index.file_ = file;
    return index;
  } catch (const std::exception& error) {
    // An index that cannot be read is treated as missing: another is built.
    spdlog::debug("{}: {}", file.string(), error.what());
    return std::nullopt;
  }
}

std::optional<ManifestIndex> ManifestIndex::make_stored(const InputFile& manifest,
                                                        const IndexOptions& options) {
  for (const fs::path& file : {beside(manifest.path()), in_cache(manifest.path())}) {
    try {
      write_index(manifest, options, file);
    } catch (const NotStored& not_stored) {
      spdlog::debug("the index is not stored there: {}", not_stored.reason);
      continue;
    }
    // std::nullopt if the manifest has just changed.
    if (std::optional<ManifestIndex> index = find(manifest.path(), file)) return index;
  }
  spdlog::info("the index of {} could not be stored next to it or in {}: it is rebuilt every time",
               manifest.path().string(), cache_folder().string());
  return std::nullopt;
}

ManifestIndex ManifestIndex::make_in_memory(const InputFile& manifest,
                                            const IndexOptions& options) {
  ColumnStore columns;
  const ManifestScan scan = scan_manifest(
      manifest, options, [&](ManifestColumns piece) { columns.add(std::move(piece)); });
  require_utterances(scan, columns, manifest.path());
  ManifestIndex index;
  encode(scan, columns, manifest, [&](std::span<const std::byte> bytes) {
    index.image_.insert(index.image_.end(), bytes.begin(), bytes.end());
  });
  const bool is_decoded = index.decode(index.image_, manifest.size(), manifest.changed_ns());
  SOTTO_ASSERT(is_decoded, "an index that was just made");
  return index;
}

ManifestIndex ManifestIndex::make(const InputFile& manifest, const IndexOptions& options,
                                  bool is_stored) {
  if (is_stored) {
    if (std::optional<ManifestIndex> index = make_stored(manifest, options))
      return std::move(*index);
  }
  return make_in_memory(manifest, options);
}

ManifestIndex ManifestIndex::open(const fs::path& manifest, const IndexOptions& options) {
  const InputFile file = InputFile::open(manifest, kManifest);
  const bool is_stored = file.size() >= options.min_stored_bytes;
  if (is_stored) {
    for (const fs::path& stored : {beside(manifest), in_cache(manifest)}) {
      if (std::optional<ManifestIndex> index = find(manifest, stored)) return std::move(*index);
    }
  }
  ManifestIndex index = make(file, options, is_stored);
  // Returns the many small allocations of the scan to the system instead of keeping them for reuse.
  malloc_trim(0);
  return index;
}

}  // namespace sotto::data
