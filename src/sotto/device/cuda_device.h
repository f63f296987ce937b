// The GPU that LibTorch's operations run on: its stream, device memory directly from the driver,
// page-locked host memory for concurrent copies, and events on its stream. In a build without CUDA
// every function throws ConfigError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sotto/device/target.h"

namespace sotto::device {

// Returns the stream that LibTorch uses, as an opaque pointer; our kernels are launched on it.
void* current_cuda_stream();

struct CudaDevice {
  std::string name = {};
  // Identifies the GPU in NVML, which numbers GPUs differently from CUDA.
  std::string uuid = {};
  Target target = {};
};

// Returns the current device. Throws ConfigError where there is none, or where its driver or the
// card is too old; the message names the required version.
CudaDevice read_cuda_device();

// Selects the device with that index as the current one and returns it. Throws as
// read_cuda_device() does.
CudaDevice select_cuda_device(int index);

struct CudaMemory {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
};
CudaMemory read_cuda_memory();

// Waits until all launched work is done, and throws the errors that occurred in it.
void synchronize_cuda();

// Allocates device memory. Throws OutOfMemory.
std::byte* allocate_cuda(int64_t bytes);
void free_cuda(std::byte* address) noexcept;

// Allocates page-locked host memory. Throws OutOfMemory.
std::byte* allocate_pinned(int64_t bytes);
void free_pinned(std::byte* address) noexcept;

// A CUDA event: wait() returns when everything launched on the stream before record() is done.
class CudaEvent {
 public:
  CudaEvent();
  // Not trivial in one of the two implementations.
  // NOLINTNEXTLINE(performance-trivially-destructible)
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(void* stream = current_cuda_stream());
  // Returns immediately if nothing was recorded.
  void wait();
  // Makes work launched on the stream from now on wait for the event; the host does not wait.
  void hold(void* stream);

 private:
  void* event_ = nullptr;
};

// A separate stream for copies, concurrent with the one that LibTorch uses.
class CudaStream {
 public:
  CudaStream();
  // Waits for the launched copies.
  // NOLINTNEXTLINE(performance-trivially-destructible)
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void* handle() const { return stream_; }
  // Copies between page-locked host memory and the device, in either direction.
  void copy(void* to, const void* from, int64_t bytes);
  void wait();

 private:
  void* stream_ = nullptr;
};

// Replaces LibTorch's caching allocator by `arenas`, the CUDA side of torch_memory.h. To be called
// once, before any GPU memory is allocated.
class ArenaSet;
void install_cuda_allocator(ArenaSet& arenas);

}  // namespace sotto::device
