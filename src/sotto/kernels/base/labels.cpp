#include "sotto/kernels/base/labels.h"

#include <ATen/ATen.h>

#include <limits>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"

namespace sotto::kernels {

Labels::Labels(const std::vector<std::vector<int32_t>>& utterances, const at::Device& device)
    : starts_(1, 0) {
  SOTTO_ASSERT(!utterances.empty(), "labels of no utterance");
  for (const std::vector<int32_t>& labels : utterances) {
    lengths_.push_back(static_cast<int64_t>(labels.size()));
    starts_.push_back(starts_.back() + lengths_.back());
    values_.insert(values_.end(), labels.begin(), labels.end());
  }
  SOTTO_ASSERT(starts_.back() <= std::numeric_limits<int32_t>::max(), "{} labels in one pack",
               starts_.back());

  const device::CategoryScope category(device::Category::kData);
  device_values_ = at::empty({num_labels()}, at::TensorOptions().dtype(at::kInt).device(device));
  if (device.is_meta() || values_.empty()) return;
  // Does not wait: the driver copies this few bytes out of the vector before the call returns.
  device_values_.copy_(at::from_blob(values_.data(), {num_labels()}, at::kInt),
                       /*non_blocking=*/true);
}

std::span<const int32_t> Labels::of(int64_t utterance) const {
  const auto u = static_cast<size_t>(utterance);
  return std::span(values_).subspan(static_cast<size_t>(starts_[u]),
                                    static_cast<size_t>(lengths_[u]));
}

}  // namespace sotto::kernels
