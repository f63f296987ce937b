// What an index has of each utterance while it is made: columns of pieces of the manifest, one
// piece after the other. Of millions of lines they wait in a file until all are known, so that
// making an index takes little memory.
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
  // Bytes of an entry, column by column, in the order of the file.
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
  // In memory.
  ColumnStore() = default;
  // In a file without a name, in a folder that is there. Throws DataError where it cannot be made.
  explicit ColumnStore(const std::filesystem::path& folder);
  ~ColumnStore();
  ColumnStore(const ColumnStore&) = delete;
  ColumnStore& operator=(const ColumnStore&) = delete;

  // The piece behind all that are there. Throws DataError where there is no room for it.
  void add(ManifestColumns piece);

  size_t num_pieces() const { return pieces_.size(); }
  uint64_t num_utterances() const { return num_utterances_; }
  // A column of a piece. Throws DataError where it cannot be read back.
  std::vector<std::byte> read(size_t piece, size_t column) const;

 private:
  struct Piece {
    uint64_t num_utterances = 0;
    // In the file.
    int64_t offset = 0;
    // Where there is none.
    std::optional<ManifestColumns> columns = {};
  };

  std::filesystem::path folder_;
  int descriptor_ = -1;
  int64_t file_bytes_ = 0;
  uint64_t num_utterances_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace sotto::data
