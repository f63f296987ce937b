// Arenas as LibTorch's allocators. While an ArenaGuard lives, every tensor that LibTorch allocates
// on its device type lies in its arena; without one, LibTorch's own allocator serves as before. A
// tensor may outlive its guard: its block goes back to its arena all the same.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sotto/device/arena.h"

namespace sotto::device {

// Makes arenas possible on the GPU. To be called before anything is allocated there: LibTorch's own
// allocator cannot be replaced later. Until a guard lives, blocks come straight from the driver.
void prepare_cuda_memory();

class ArenaGuard {
 public:
  // `device` is CPU (an arena of host memory), CUDA (of device memory) or Meta (an arena of
  // nothing: the dry run). The arena is shared because tensors that outlive both the guard and its
  // owner still hold blocks of it.
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
//
// `results`: bytes of what the call allocates and returns, in that order. They are placed before
// the bound as blocks like any other; inside, a request of just that many bytes gets the block.
class LibraryCall {
 public:
  LibraryCall(std::string_view name, c10::DeviceType device, int64_t bound_bytes,
              std::span<const int64_t> results = {});
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

 private:
  std::shared_ptr<Arena> arena_;
};

}  // namespace sotto::device
