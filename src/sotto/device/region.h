// The memory of an arena: maps offsets to addresses. Three kinds: host memory, GPU memory, and no
// memory (addresses that identify blocks of the dry run and must never be accessed).
//
// Host memory has two implementations, one of which is compiled: region_mapped.cpp, one mapping
// that the system commits on first access; and, in sanitizer builds, region_blocks.cpp, where each
// block is an allocation of exactly its own size, so that a write past a tensor's end is detected.
#pragma once

#include <cstdint>
#include <memory>

namespace sotto::device {

enum class RegionKind { kNothing, kHost, kCuda };

class Region {
 public:
  // Throws OutOfMemory where the system or the driver refuses the memory.
  Region(RegionKind kind, int64_t bytes);
  // Not trivial in one of the two implementations.
  // NOLINTNEXTLINE(performance-trivially-destructible)
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  RegionKind kind() const { return kind_; }

  // Returns the address of a block of `bytes` at `offset`.
  void* take(int64_t offset, int64_t bytes);
  void give_back(void* address);

  // Allocates a block outside of the region.
  void* take_outside(int64_t bytes);
  void give_back_outside(void* address);

 private:
  RegionKind kind_;
  int64_t bytes_;
  std::byte* base_ = nullptr;
};

}  // namespace sotto::device
