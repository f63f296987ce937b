// Page-locked host memory through which tensors are copied to the GPU, so that the copy runs
// concurrently with the host's work. Double-buffered: one buffer is filled while the copy from the
// other may still run. Allocated buffers are kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "sotto/device/cuda_device.h"
#include "sotto/device/host_memory.h"

namespace sotto::device {

class StagingBuffer {
 public:
  // Allocates nothing until it is needed. The memory must outlive this object.
  explicit StagingBuffer(HostMemory& memory) : memory_(memory) {}
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  // Returns a buffer of `bytes` from which no copy is running any more. Throws OutOfMemory beyond
  // the budget of the memory.
  std::byte* take(int64_t bytes);

  // Reports that the copy from the buffer of take() is on the stream.
  void launched();

  int64_t reserved_bytes() const;
  // Frees both buffers once no copy from them is running; they are allocated again when needed.
  // Returns the number of bytes freed.
  int64_t release();

 private:
  struct Buffer {
    HostBlock block;
    // Recorded after the last copy from this buffer; created with the first copy.
    std::unique_ptr<CudaEvent> last_copy;
  };

  HostMemory& memory_;
  std::array<Buffer, 2> buffers_;
  size_t now_ = 0;
};

}  // namespace sotto::device
