#include "sotto/kernels/base/packing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"

namespace sotto::kernels {

namespace {

// A few hundred bytes: the driver copies them out of the vector before the call returns, without
// waiting for the device.
template <class T>
at::Tensor copy_to_device(const std::vector<T>& values, at::ScalarType type,
                          const at::Device& device) {
  const device::CategoryScope category(device::Category::kData);
  const auto size = static_cast<int64_t>(values.size());
  at::Tensor result = at::empty({size}, at::TensorOptions().dtype(type).device(device));
  if (device.is_meta()) return result;
  result.copy_(at::from_blob(const_cast<T*>(values.data()), {size}, type), /*non_blocking=*/true);
  return result;
}

}  // namespace

Packing::Packing(std::vector<int64_t> lengths, const at::Device& device,
                 std::vector<UtteranceKey> keys)
    : lengths_(std::move(lengths)), starts_(1, 0), keys_(std::move(keys)) {
  SOTTO_ASSERT(!lengths_.empty(), "a pack without utterances");
  for (const int64_t length : lengths_) {
    SOTTO_ASSERT(length > 0, "an utterance of {} frames", length);
    starts_.push_back(starts_.back() + length);
    max_length_ = std::max(max_length_, length);
  }
  SOTTO_ASSERT(starts_.back() <= std::numeric_limits<int32_t>::max(), "{} frames in one pack",
               starts_.back());
  if (keys_.empty()) {
    for (uint64_t index = 0; index < lengths_.size(); ++index)
      keys_.push_back({.utterance = index});
  }
  SOTTO_ASSERT(keys_.size() == lengths_.size(), "{} keys for {} utterances", keys_.size(),
               lengths_.size());

  const std::vector<int32_t> narrow(starts_.begin(), starts_.end());
  std::vector<int64_t> folded;
  for (const UtteranceKey& key : keys_) folded.push_back(static_cast<int64_t>(fold(key)));
  device_starts_ = copy_to_device(narrow, at::kInt, device);
  device_keys_ = copy_to_device(folded, at::kLong, device);
}

int64_t Packing::utterance_of(int64_t frame) const {
  return std::upper_bound(starts_.begin(), starts_.end(), frame) - starts_.begin() - 1;
}

}  // namespace sotto::kernels
