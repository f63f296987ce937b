// Places blocks in one address range: best fit with coalescing, computed in offsets without access
// to memory. This is the only placement code of sotto: the dry run, host memory and device memory
// use it, so that all of them fragment identically.
//
// The space above the highest block is used only when no gap below fits. Hence the offset of a
// block does not depend on the capacity, and a history fits into a range if and only if the range
// is as long as the history's high-water mark.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace sotto::device {

class Placement {
 public:
  // Every block begins at a multiple of this and occupies a multiple of it, as on CUDA devices.
  static constexpr int64_t kAlignment = 512;

  static constexpr int64_t rounded(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  explicit Placement(int64_t capacity_bytes);

  // Returns the offset of a new block of rounded(bytes) > 0, in the smallest gap that holds it;
  // std::nullopt if there is none.
  std::optional<int64_t> allocate(int64_t bytes);

  // Frees the block at `offset` and returns its rounded size.
  int64_t free(int64_t offset);

  int64_t capacity() const { return capacity_; }
  int64_t live() const { return live_; }
  int64_t num_blocks() const { return static_cast<int64_t>(block_sizes_.size()); }
  // End of the highest block placed so far: the shortest range that holds this history.
  int64_t high_water() const { return high_water_; }
  // Returns the size of the largest block that could be placed now.
  int64_t largest_gap() const;

  // Resets the history: the high-water mark becomes the end of the highest live block.
  void reset_high_water() { high_water_ = top_; }

 private:
  void insert_gap(int64_t offset, int64_t size);
  void erase_gap(std::map<int64_t, int64_t>::iterator gap);

  int64_t capacity_;
  int64_t live_ = 0;
  int64_t top_ = 0;  // end of the highest live block
  int64_t high_water_ = 0;
  std::map<int64_t, int64_t> gaps_;                     // below top_: offset to size
  std::set<std::pair<int64_t, int64_t>> gaps_by_size_;  // (size, offset)
  std::unordered_map<int64_t, int64_t> block_sizes_;    // offset to size
};

}  // namespace sotto::device
