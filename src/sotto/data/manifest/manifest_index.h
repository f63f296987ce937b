// Index of the lines of a manifest and the sizes of their utterances: 32 bytes per utterance, built
// in one pass over the file on all cores, and stored in a separate file, so that a manifest of
// millions of lines opens instantly. Independent of LibTorch.
//
// The index file is next to the manifest (`.NAME.sotto-index`) or, if that folder is not writable,
// in the cache folder; if neither is, or if the manifest is small, only in memory. It is rebuilt
// when the manifest's size or modification time changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/files/input_file.h"
#include "sotto/core/files/mapped_file.h"
#include "sotto/data/manifest/manifest_line.h"

namespace sotto::data {

// Receives the bytes done and the total bytes.
using IndexProgress = std::function<void(int64_t, int64_t)>;

struct IndexOptions {
  // 0: one per core.
  int64_t num_threads = 0;
  // Smaller manifests are read again each time: that takes milliseconds, and leaves no files.
  int64_t min_stored_bytes = int64_t{4} << 20;
  // Called by one thread at a time while an index is built.
  IndexProgress on_progress = {};
};

// A line that is not an utterance.
struct BadLine {
  int64_t line = 0;
  LineFault fault;
};

class ManifestIndex {
 public:
  // Opens or builds an index. Throws DataError for a file that is missing, not a regular file, or
  // without any utterance.
  static ManifestIndex open(const std::filesystem::path& manifest, const IndexOptions& options);

  int64_t size() const { return static_cast<int64_t>(columns_.offsets.size()); }
  // Width of stored features; 0 for audio.
  int64_t feature_dim() const { return feature_dim_; }
  // 64-bit hash of all lines: a different content has a different fingerprint, with near certainty.
  uint64_t fingerprint() const { return fingerprint_; }
  // The first lines that are not utterances, in order, and their total number.
  const std::vector<BadLine>& bad_lines() const { return bad_lines_; }
  int64_t num_bad_lines() const { return num_bad_lines_; }
  // Every code point of the texts once, in ascending order.
  const std::vector<char32_t>& characters() const { return characters_; }
  // File in which the index was found or stored; std::nullopt: only in memory.
  const std::optional<std::filesystem::path>& file() const { return file_; }

  // One entry per utterance. Valid while the index lives.
  struct Columns {
    // Offset of the line in the file.
    std::span<const uint64_t> offsets;
    std::span<const uint32_t> num_bytes;
    // Hash of the line's bytes: detects changes of the manifest.
    std::span<const uint32_t> hashes;
    // Line number, from 1.
    std::span<const uint32_t> lines;
    std::span<const float> durations_s;
    // Rows of stored features; 0 for audio.
    std::span<const uint32_t> num_frames;
    // Code points of the text; runs of spaces count as one, leading and trailing spaces are not
    // counted.
    std::span<const uint32_t> num_characters;
  };
  const Columns& columns() const { return columns_; }
  // Releases the memory of accessed pages if the index is in a file.
  void release() const {
    if (mapped_) mapped_->release();
  }

 private:
  ManifestIndex() = default;

  // Decodes the output of encode() in manifest_index.cpp; returns false if it is something else, or
  // belongs to another manifest.
  bool decode(std::span<const std::byte> bytes, int64_t manifest_bytes, int64_t changed_ns);
  static std::optional<ManifestIndex> find(const std::filesystem::path& manifest,
                                           const std::filesystem::path& file);
  // Stores the index next to the manifest or in the cache folder; returns std::nullopt if neither
  // is writable.
  static std::optional<ManifestIndex> make_stored(const InputFile& manifest,
                                                  const IndexOptions& options);
  static ManifestIndex make(const InputFile& manifest, const IndexOptions& options, bool is_stored);
  static ManifestIndex make_in_memory(const InputFile& manifest, const IndexOptions& options);

  // One of the two holds the columns.
  std::vector<std::byte> image_;
  std::optional<MappedFile> mapped_;
  Columns columns_;
  int64_t feature_dim_ = 0;
  uint64_t fingerprint_ = 0;
  std::vector<BadLine> bad_lines_;
  int64_t num_bad_lines_ = 0;
  std::vector<char32_t> characters_;
  std::optional<std::filesystem::path> file_;
};

}  // namespace sotto::data
