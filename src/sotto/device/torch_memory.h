// Arenas as LibTorch's allocators. While an ArenaGuard lives, every tensor that LibTorch allocates
// on its device type lies in its arena; without one, LibTorch's own allocator serves as before. A
// tensor may outlive its guard: its block goes back to its arena all the same.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "sotto/device/arena.h"

namespace sotto::device {

class ArenaGuard {
 public:
  // `device` is CPU (an arena of host memory) or Meta (an arena of nothing: the dry run). The arena
  // is shared because tensors that outlive both the guard and its owner still hold blocks of it.
  ArenaGuard(c10::DeviceType device, std::shared_ptr<Arena> arena);
  ~ArenaGuard();
  ArenaGuard(const ArenaGuard&) = delete;
  ArenaGuard& operator=(const ArenaGuard&) = delete;

 private:
  c10::DeviceType device_;
  std::shared_ptr<Arena> outer_;
};

// The scope of a call into a library that allocates: reserves the bound in the device's arena,
// which may throw OutOfMemory; inside, allocations are counted and never throw. Without an arena it
// does nothing.
class LibraryCall {
 public:
  LibraryCall(std::string_view name, c10::DeviceType device, int64_t bound_bytes);
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

 private:
  std::shared_ptr<Arena> arena_;
};

}  // namespace sotto::device
