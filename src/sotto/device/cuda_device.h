// The GPU that LibTorch's operations run on: its stream, its memory straight from the driver, host
// memory that it can copy from beside other work, and moments on its stream. Without CUDA in the
// build every function throws ConfigError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sotto/device/target.h"

namespace sotto::device {

// As an opaque pointer; kernels of ours are launched on the stream that LibTorch uses.
void* current_cuda_stream();

struct CudaDevice {
  std::string name = {};
  // NVML's name for it: CUDA counts otherwise.
  std::string uuid = {};
  Target target = {};
};

// The current device. Throws ConfigError where there is none, or its driver or the card is too old;
// the message names the version needed.
CudaDevice read_cuda_device();

// The same for the device of that number, which becomes the current one.
CudaDevice select_cuda_device(int index);

struct CudaMemory {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
};
CudaMemory read_cuda_memory();

// Waits until everything launched so far is done, and throws what went wrong in it.
void synchronize_cuda();

// Device memory. Throws OutOfMemory.
std::byte* allocate_cuda(int64_t bytes);
void free_cuda(std::byte* address) noexcept;

// Page-locked host memory. Throws OutOfMemory.
std::byte* allocate_pinned(int64_t bytes);
void free_pinned(std::byte* address) noexcept;

// A moment on a stream: what was launched there before record() is done when wait() returns.
class CudaEvent {
 public:
  CudaEvent();
  // One of the two forms has something to give back.
  // NOLINTNEXTLINE(performance-trivially-destructible)
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(void* stream = current_cuda_stream());
  // Returns at once where nothing was recorded.
  void wait();
  // What is launched on the stream from now on waits for the moment; the host does not.
  void hold(void* stream);

 private:
  void* event_ = nullptr;
};

// A stream of copies beside the one that LibTorch uses.
class CudaStream {
 public:
  CudaStream();
  // Waits for what was launched.
  // NOLINTNEXTLINE(performance-trivially-destructible)
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void* handle() const { return stream_; }
  // Between page-locked host memory and the device, either way.
  void copy(void* to, const void* from, int64_t bytes);
  void wait();

 private:
  void* stream_ = nullptr;
};

// Puts `arenas`, the CUDA side of torch_memory.h, in the place of LibTorch's caching allocator.
// Once, before anything was allocated on a GPU.
class ArenaSet;
void install_cuda_allocator(ArenaSet& arenas);

}  // namespace sotto::device
