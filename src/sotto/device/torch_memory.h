// Arenas as LibTorch's allocators. While an ArenaGuard lives, every tensor that LibTorch allocates
// on its device type is stored in its arena; without a guard, LibTorch's own allocator is used. A
// tensor may outlive its guard: its block is still returned to its arena.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sotto/device/arena.h"

namespace sotto::device {

// Enables arenas on the GPU. Must be called before anything is allocated there: LibTorch's own
// allocator cannot be replaced later. Without a guard, blocks come directly from the driver.
void prepare_cuda_memory();

class ArenaGuard {
 public:
  // `device` is CPU (an arena of host memory), CUDA (of device memory) or Meta (an arena without
  // memory: the dry run). The arena is shared because tensors that outlive both the guard and its
  // owner still hold blocks of it.
  ArenaGuard(c10::DeviceType device, std::shared_ptr<Arena> arena);
  ~ArenaGuard();
  ArenaGuard(const ArenaGuard&) = delete;
  ArenaGuard& operator=(const ArenaGuard&) = delete;

 private:
  c10::DeviceType device_;
  std::shared_ptr<Arena> outer_;
};

// Returns the live bytes in the arena of the device's guard; 0 without one.
int64_t live_bytes(c10::DeviceType device);

// Scope of a call into a library that allocates: reserves the bound in the device's arena, which
// may throw OutOfMemory; inside, allocations are counted and never throw. Without an arena it has
// no effect.
//
// `results`: bytes of the tensors that the call allocates and returns, in that order. They are
// placed before the bound as ordinary blocks; inside, a request of exactly that many bytes gets the
// block.
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
