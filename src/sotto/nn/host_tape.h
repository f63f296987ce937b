// What tier `host` keeps, in host memory: tensors leave beside the forward of the layers that
// follow, and come back beside the backward of those before.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/device/copy_lane.h"
#include "sotto/device/host_memory.h"

namespace sotto::nn {

class HostTape {
 public:
  // The memory must outlive this. Nothing is taken before it is needed, and what was taken is kept
  // for the next micro-batch.
  explicit HostTape(device::HostMemory& memory);

  // Which of the tensors of a micro-batch, in the order in which they left.
  using Place = size_t;

  // The tensor sets out; it stays on the device until the next one leaves, by when it has arrived.
  Place put(at::Tensor x);
  // It sets out for the device, if it is not there.
  void fetch(Place place);
  // It is on the device.
  at::Tensor take(Place place);

  // For the next micro-batch, whatever became of the one before.
  void clear();
  // Gives its memory back as well.
  void release();

 private:
  struct Entry {
    device::HostBlock block;
    at::Tensor on_device;  // leaving, or back
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
