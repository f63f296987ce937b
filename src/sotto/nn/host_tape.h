// Storage of tier `host` in host memory: tensors are copied out during the forward of the following
// layers, and copied back during the backward of the layers after theirs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/device/copy_lane.h"
#include "sotto/device/host_memory.h"

namespace sotto::nn {

class HostTape {
 public:
  // The memory must outlive this object. It is allocated on demand and kept for the next
  // micro-batch.
  explicit HostTape(device::HostMemory& memory);

  // Index of a tensor of a micro-batch, in the order in which they were copied out.
  using Index = size_t;

  // Starts copying a tensor to the host; it stays on the device until the next put(), by which time
  // the copy is complete.
  Index put(at::Tensor x);
  // Starts copying it back to the device, if it is not there.
  void fetch(Index index);
  // Returns the tensor on the device.
  at::Tensor take(Index index);

  // Resets for the next micro-batch, whatever the state of the previous one.
  void clear();
  // Resets like clear(), and releases the memory.
  void release();

 private:
  struct Entry {
    device::HostBlock block;
    at::Tensor on_device;  // while being copied, or copied back
    std::vector<int64_t> shape;
    at::TensorOptions options;
  };
  void let_leave();

  device::HostMemory& memory_;
  device::CopyLane lane_;
  std::vector<Entry> entries_;
  size_t num_used_ = 0;
};

}  // namespace sotto::nn
