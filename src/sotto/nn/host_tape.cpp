#include "sotto/nn/host_tape.h"

#include <ATen/ATen.h>

#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/base/cost.h"

namespace sotto::nn {

namespace {

// Granularity of a new allocation when a block is too small: rare, since limits bound the sizes.
constexpr int64_t kStep = int64_t{1} << 20;

}  // namespace

HostTape::HostTape(device::HostMemory& memory) : memory_(memory), lane_(memory.device()) {}

HostTape::Index HostTape::put(at::Tensor x) {
  SOTTO_ASSERT(x.is_contiguous(), "a tensor with gaps cannot leave the device");
  const auto bytes = static_cast<int64_t>(x.nbytes());
  let_leave();
  if (num_used_ == entries_.size()) entries_.emplace_back();
  Entry& entry = entries_[num_used_];
  if (entry.block.bytes() < bytes) {
    lane_.wait();
    entry.block.reset();
    entry.block = memory_.allocate((bytes + kStep - 1) / kStep * kStep, "for inputs of layers");
  }
  entry.shape = x.sizes().vec();
  entry.options = x.options();
  kernels::report_cost("tape.to_host",
                       {.bytes = static_cast<double>(bytes), .work = kernels::Work::kCopyToHost});
  if (!x.is_meta()) {
    lane_.follow_device();
    lane_.copy(entry.block.data(), x.const_data_ptr(), bytes);
  }
  entry.on_device = std::move(x);
  return num_used_++;
}

// The last tensor's copy completes before the device continues: its memory may be reused.
void HostTape::let_leave() {
  if (num_used_ == 0) return;
  lane_.device_follows();
  entries_[num_used_ - 1].on_device.reset();
}

void HostTape::fetch(Index index) {
  Entry& entry = entries_.at(index);
  if (entry.on_device.defined()) return;
  entry.on_device = at::empty(entry.shape, entry.options);
  kernels::report_cost("tape.to_device", {.bytes = static_cast<double>(entry.on_device.nbytes()),
                                          .work = kernels::Work::kCopyToDevice});
  if (entry.on_device.is_meta()) return;
  lane_.follow_device();
  lane_.copy(entry.on_device.mutable_data_ptr(), entry.block.data(),
             static_cast<int64_t>(entry.on_device.nbytes()));
}

at::Tensor HostTape::take(Index index) {
  fetch(index);
  lane_.device_follows();
  return std::exchange(entries_[index].on_device, {});
}

void HostTape::clear() {
  lane_.device_follows();
  for (Entry& entry : entries_) entry.on_device.reset();
  num_used_ = 0;
}

void HostTape::release() {
  clear();
  lane_.wait();
  entries_.clear();
}

}  // namespace sotto::nn
