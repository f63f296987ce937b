// The memory behind an arena: an address for each offset. Three kinds: host memory, memory of the
// GPU, and nothing at all (addresses that identify blocks of the dry run and must never be
// touched).
//
// Host memory has two forms, one of which is compiled: region_mapped.cpp, one mapping that the
// system fills in when touched; and, in sanitizer builds, region_blocks.cpp, where each block is an
// allocation of exactly its own size, so that a write past a tensor's end is seen.
#pragma once

#include <cstdint>
#include <memory>

namespace sotto::device {

enum class RegionKind { kNothing, kHost, kCuda };

class Region {
 public:
  // Throws OutOfMemory where the system or the driver refuses.
  Region(RegionKind kind, int64_t bytes);
  // One of the two forms has memory to give back.
  // NOLINTNEXTLINE(performance-trivially-destructible)
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  RegionKind kind() const { return kind_; }

  // Address of a block of `bytes` at `offset`.
  void* take(int64_t offset, int64_t bytes);
  void give_back(void* address);

  // A block beside the region.
  void* take_outside(int64_t bytes);
  void give_back_outside(void* address);

 private:
  RegionKind kind_;
  int64_t bytes_;
  std::byte* base_ = nullptr;
};

}  // namespace sotto::device
