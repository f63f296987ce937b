#include "sotto/device/placement.h"

#include <algorithm>

#include "sotto/core/error.h"

namespace sotto::device {

Placement::Placement(int64_t capacity_bytes)
    : capacity_(capacity_bytes / kAlignment * kAlignment) {}

std::optional<int64_t> Placement::allocate(int64_t bytes) {
  SOTTO_ASSERT(bytes > 0, "a block of {} bytes", bytes);
  const int64_t size = rounded(bytes);
  int64_t offset = top_;
  // Selects the lowest of several gaps of equal size, which keeps the range short.
  const auto best = gaps_by_size_.lower_bound({size, 0});
  if (best != gaps_by_size_.end()) {
    const int64_t gap_size = best->first;
    offset = best->second;
    erase_gap(gaps_.find(offset));
    if (gap_size > size) insert_gap(offset + size, gap_size - size);
  } else {
    if (size > capacity_ - top_) return std::nullopt;
    top_ += size;
    high_water_ = std::max(high_water_, top_);
  }
  block_sizes_.emplace(offset, size);
  live_ += size;
  return offset;
}

int64_t Placement::free(int64_t offset) {
  const auto block = block_sizes_.find(offset);
  SOTTO_ASSERT(block != block_sizes_.end(), "no block at offset {}", offset);
  const int64_t size = block->second;
  block_sizes_.erase(block);
  live_ -= size;

  int64_t begin = offset;
  int64_t end = offset + size;
  const auto after = gaps_.lower_bound(offset);
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      erase_gap(before);
    }
  }
  if (after != gaps_.end() && after->first == end) {
    end += after->second;
    erase_gap(after);
  }
  if (end == top_) {
    top_ = begin;
  } else {
    insert_gap(begin, end - begin);
  }
  return size;
}

int64_t Placement::largest_gap() const {
  const int64_t below = gaps_by_size_.empty() ? 0 : gaps_by_size_.rbegin()->first;
  return std::max(below, capacity_ - top_);
}

void Placement::insert_gap(int64_t offset, int64_t size) {
  gaps_.emplace(offset, size);
  gaps_by_size_.emplace(size, offset);
}

void Placement::erase_gap(std::map<int64_t, int64_t>::iterator gap) {
  gaps_by_size_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

}  // namespace sotto::device
