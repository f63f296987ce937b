// Columns of an index while it is built: those of consecutive pieces of the manifest. For millions
// of lines they are kept in a file until all are known, so that building an index takes little
// memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace sotto::data {

// One entry per utterance of a piece, as ManifestIndex::Columns describes them.
struct ManifestColumns {
  static constexpr size_t kCount = 7;
  // Bytes per entry of each column, in the order of the file.
  static constexpr std::array<size_t, kCount> kWidths = {8, 4, 4, 4, 4, 4, 4};
  static constexpr size_t kNumBytes = 1, kHashes = 2;

  std::vector<uint64_t> offsets = {};
  std::vector<uint32_t> num_bytes = {};
  std::vector<uint32_t> hashes = {};
  std::vector<uint32_t> lines = {};
  std::vector<float> durations_s = {};
  std::vector<uint32_t> num_frames = {};
  std::vector<uint32_t> num_characters = {};

  std::span<const std::byte> bytes_of(size_t column) const;
};

class ColumnStore {
 public:
  // Stores the columns in memory.
  ColumnStore() = default;
  // Stores the columns in an unnamed file in an existing folder. Throws DataError where it cannot
  // be created.
  explicit ColumnStore(const std::filesystem::path& folder);
  ~ColumnStore();
  ColumnStore(const ColumnStore&) = delete;
  ColumnStore& operator=(const ColumnStore&) = delete;

  // Appends a piece. Throws DataError where the disk is full.
  void add(ManifestColumns piece);

  size_t num_pieces() const { return pieces_.size(); }
  uint64_t num_utterances() const { return num_utterances_; }
  // Returns a column of a piece. Throws DataError where it cannot be read back.
  std::vector<std::byte> read(size_t piece, size_t column) const;

 private:
  struct Piece {
    uint64_t num_utterances = 0;
    // Offset in the file.
    int64_t offset = 0;
    // Used if there is no file.
    std::optional<ManifestColumns> columns = {};
  };

  std::filesystem::path folder_;
  int descriptor_ = -1;
  int64_t file_bytes_ = 0;
  uint64_t num_utterances_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace sotto::data
