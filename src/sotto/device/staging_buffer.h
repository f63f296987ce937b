// Page-locked host memory that tensors travel through on their way to the GPU, so that the copy
// runs beside the host's work. Two places take turns: one is filled while the copy out of the other
// may still run. Taken straight from the driver, under a budget of its own, and kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "sotto/device/cuda_device.h"

namespace sotto::device {

class StagingBuffer {
 public:
  // Nothing is taken before it is needed.
  explicit StagingBuffer(int64_t budget_bytes) : budget_bytes_(budget_bytes) {}
  ~StagingBuffer();
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  // Room for `bytes`, out of which no copy runs any more. Throws OutOfMemory where both places
  // together would exceed the budget.
  std::byte* take(int64_t bytes);

  // The copy out of what take() gave is on the stream.
  void launched();

  int64_t reserved_bytes() const;

 private:
  struct Place {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    // Behind the last copy out of it; made with the first.
    std::unique_ptr<CudaEvent> last_copy;
  };

  int64_t budget_bytes_;
  std::array<Place, 2> places_;
  size_t now_ = 0;
};

}  // namespace sotto::device
