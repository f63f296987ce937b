// Page-locked host memory that tensors travel through on their way to the GPU, so that the copy
// runs beside the host's work. Two places take turns: one is filled while the copy out of the other
// may still run. What was taken is kept.
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
  // Nothing is taken before it is needed. The memory must outlive this.
  explicit StagingBuffer(HostMemory& memory) : memory_(memory) {}
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  // Room for `bytes`, out of which no copy runs any more. Throws OutOfMemory beyond the budget of
  // the memory.
  std::byte* take(int64_t bytes);

  // The copy out of what take() gave is on the stream.
  void launched();

  int64_t reserved_bytes() const;
  // Gives both places back once no copy runs out of them; they are taken anew when they are needed.
  // Returns their bytes.
  int64_t release();

 private:
  struct Place {
    HostBlock block;
    // Behind the last copy out of it; made with the first.
    std::unique_ptr<CudaEvent> last_copy;
  };

  HostMemory& memory_;
  std::array<Place, 2> places_;
  size_t now_ = 0;
};

}  // namespace sotto::device
