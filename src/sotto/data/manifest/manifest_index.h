// Where the lines of a manifest are and how large their utterances: 32 bytes an utterance, made in
// one pass over the file on all cores, and kept in a file of its own, so that a manifest of
// millions of lines is open in an instant. Knows no LibTorch.
//
// The index file lies beside the manifest (`.NAME.sotto-index`) or, where that folder cannot be
// written, in the cache folder; where neither can, or the manifest is small, in memory alone. It is
// made anew when the manifest's size or time of change is another.
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

// Bytes done, of all bytes.
using IndexProgress = std::function<void(int64_t, int64_t)>;

struct IndexOptions {
  // 0: as many as the machine has cores.
  int64_t num_threads = 0;
  // Smaller manifests are read anew each time: that takes milliseconds, and leaves no files behind.
  int64_t min_stored_bytes = int64_t{4} << 20;
  // Called by one thread at a time while an index is made.
  IndexProgress on_progress = {};
};

// A line that is no utterance.
struct BadLine {
  int64_t line = 0;
  LineFault fault;
};

class ManifestIndex {
 public:
  // Throws DataError for a file that is missing, no regular one, or without any utterance.
  static ManifestIndex open(const std::filesystem::path& manifest, const IndexOptions& options);

  int64_t size() const { return static_cast<int64_t>(columns_.offsets.size()); }
  // Width of stored features; 0 for audio.
  int64_t feature_dim() const { return feature_dim_; }
  // 64 bits of all lines: another content has another fingerprint, as good as always.
  uint64_t fingerprint() const { return fingerprint_; }
  // The first of those lines that are no utterances, in order, and how many there are.
  const std::vector<BadLine>& bad_lines() const { return bad_lines_; }
  int64_t num_bad_lines() const { return num_bad_lines_; }
  // Every code point of the texts once, in their order.
  const std::vector<char32_t>& characters() const { return characters_; }
  // Where the index was found or stored; none: in memory alone.
  const std::optional<std::filesystem::path>& file() const { return file_; }

  // One entry an utterance. They last as long as the index.
  struct Columns {
    // Of the line in the file.
    std::span<const uint64_t> offsets;
    std::span<const uint32_t> num_bytes;
    // Of the line's bytes: shows that the manifest has changed since.
    std::span<const uint32_t> hashes;
    // Its number, from 1.
    std::span<const uint32_t> lines;
    std::span<const float> durations_s;
    // Rows of stored features; 0 for audio.
    std::span<const uint32_t> num_frames;
    // Code points of the text; runs of spaces count as one, and those at its ends not at all.
    std::span<const uint32_t> num_characters;
  };
  const Columns& columns() const { return columns_; }
  // Gives back the memory of what was looked at, where the index lies in a file.
  void release() const {
    if (mapped_) mapped_->release();
  }

 private:
  ManifestIndex() = default;

  // Takes apart what encode() of manifest_index.cpp put together; false where it is something else,
  // or of another manifest.
  bool decode(std::span<const std::byte> bytes, int64_t manifest_bytes, int64_t changed_ns);
  static std::optional<ManifestIndex> find(const std::filesystem::path& manifest,
                                           const std::filesystem::path& file);
  // Beside the manifest or in the cache folder; none where neither can be written.
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
