#include "sotto/optim/state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/kernels/optimizer/moment_map.h"

namespace sotto::optim {

namespace {

using device::CategoryScope;
using kernels::kMomentBlock;

// Alignment of arrays in a window.
constexpr int64_t kAlignment = 256;
// One is being filled, one is in use, one is being drained.
constexpr size_t kNumWindows = 3;

at::Tensor make_filled(int64_t size, at::ScalarType type, const at::Device& device, uint8_t zero) {
  const CategoryScope category(device::Category::kOptimizer);
  at::Tensor result = at::empty({size}, at::TensorOptions().dtype(type).device(device));
  if (!result.is_meta()) result.fill_(zero);
  return result;
}

// Maximum padding between the arrays of a window.
constexpr int64_t kGaps = static_cast<int64_t>(StateArrays::kNumArrays) * kAlignment;

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

int64_t OptimizerState::ArrayForm::num_bytes(int64_t values) const {
  if (!is_there) return 0;
  return num_elements(values) * static_cast<int64_t>(c10::elementSize(type));
}

OptimizerState::Forms OptimizerState::forms_of(const nn::ParameterRange& range,
                                               const StateForm& form) {
  Forms forms;
  if (!range.trains) return forms;
  const bool has_codes = range.is_large && form.moments == Moments::k8Bit;
  SOTTO_ASSERT(!range.is_large || range.alignment() % kMomentBlock == 0,
               "blocks of moments would have values of two parameters");
  forms[0] = forms[1] = {.type = has_codes ? at::kByte : at::kFloat, .is_there = true};
  // Padding after a parameter in its last block affects the block's scale, and checkpoints do not
  // store it: it is initialised to zero, and updates keep it zero.
  if (has_codes) forms[0].zero = kernels::kSignedZero;
  forms[2] = forms[3] = {.type = at::kFloat, .values_each = kMomentBlock, .is_there = has_codes};
  forms[4] = {.type = form.remainder_bits == 8 ? at::kByte : at::kShort,
              .is_there = range.values.scalar_type() != at::kFloat && form.remainder_bits > 0};
  return forms;
}

OptimizerState::OptimizerState(const std::vector<nn::ParameterRange>& ranges, const StateForm& form,
                               const Placement& placement)
    : is_on_host_(placement.location == StateLocation::kHost),
      is_dry_(ranges.at(0).values.is_meta()),
      arrays_(ranges.size()) {
  for (const nn::ParameterRange& range : ranges) forms_.push_back(forms_of(range, form));
  if (is_on_host_) {
    SOTTO_ASSERT(placement.host != nullptr, "state on the host without host memory");
    for (size_t range = 0; range < ranges.size(); ++range)
      allocate_on_host(ranges[range].values.numel(), range, *placement.host);
    make_windows(ranges, placement.window_bytes);
    incoming_ = std::make_unique<device::CopyLane>(placement.host->device());
    outgoing_ = std::make_unique<device::CopyLane>(placement.host->device());
    incoming_->follow_device();  // after all earlier device work that uses the windows' memory
    return;
  }
  for (size_t range = 0; range < ranges.size(); ++range) {
    const at::Tensor& values = ranges[range].values;
    for (size_t i = 0; i < kNumArrays; ++i) {
      const ArrayForm& array = forms_[range][i];
      if (!array.is_there) continue;
      arrays_[range].*StateArrays::kAll[i] =
          make_filled(array.num_elements(values.numel()), array.type, values.device(), array.zero);
    }
  }
}

void OptimizerState::allocate_on_host(int64_t size, size_t range, device::HostMemory& host) {
  for (size_t i = 0; i < kNumArrays; ++i) {
    const ArrayForm& array = forms_[range][i];
    if (!array.is_there) continue;
    const int64_t bytes = array.num_bytes(size);
    const device::HostBlock& block =
        blocks_.emplace_back(host.allocate(bytes, "for the optimizer's state"));
    if (block.data() == nullptr) continue;
    std::memset(block.data(), array.zero, static_cast<size_t>(bytes));
    arrays_[range].*StateArrays::kAll[i] =
        at::from_blob(block.data(), {array.num_elements(size)}, at::TensorOptions(array.type));
  }
}

// No longer than the longest range needs, including padding between its arrays.
void OptimizerState::make_windows(const std::vector<nn::ParameterRange>& ranges,
                                  int64_t window_bytes) {
  int64_t longest = 0;
  for (size_t range = 0; range < ranges.size(); ++range) {
    int64_t bytes = kGaps;
    for (const ArrayForm& array : forms_[range])
      bytes += array.num_bytes(std::max(ranges[range].values.numel(), kMomentBlock));
    longest = std::max(longest, bytes);
  }
  const int64_t bytes = std::min(longest, window_bytes);
  const at::Device device = ranges.front().values.device();
  for (size_t i = 0; i < kNumWindows; ++i) {
    Window& window = windows_.emplace_back();
    window.bytes = make_filled(bytes, at::kByte, device, 0);
  }
}

int64_t OptimizerState::values_per_window(size_t range) const {
  int64_t block_bytes = 0;
  for (const ArrayForm& array : forms_[range]) block_bytes += array.num_bytes(kMomentBlock);
  const int64_t blocks = (windows_.front().bytes.numel() - kGaps) / block_bytes;
  SOTTO_ASSERT(blocks > 0, "a window of {} bytes", windows_.front().bytes.numel());
  return blocks * kMomentBlock;
}

StateArrays OptimizerState::in_window(const Window& window, const RangePart& piece) const {
  StateArrays arrays;
  int64_t offset = 0;
  for (size_t i = 0; i < kNumArrays; ++i) {
    const ArrayForm& array = forms_[piece.range][i];
    if (!array.is_there) continue;
    const int64_t bytes = array.num_bytes(piece.count);
    arrays.*StateArrays::kAll[i] = window.bytes.narrow(0, offset, bytes).view(array.type);
    offset += aligned(bytes);
  }
  return arrays;
}

StateArrays OptimizerState::view(const RangePart& part) const {
  if (outgoing_) outgoing_->wait();
  StateArrays arrays;
  for (size_t i = 0; i < kNumArrays; ++i) {
    const ArrayForm& array = forms_[part.range][i];
    const at::Tensor& whole = arrays_[part.range].*StateArrays::kAll[i];
    if (!whole.defined()) continue;
    arrays.*StateArrays::kAll[i] =
        whole.narrow(0, part.first / array.values_each, array.num_elements(part.count));
  }
  return arrays;
}

void OptimizerState::for_each(std::span<const RangePart> parts, const Update& update) {
  if (incoming_) incoming_->follow(all_out_);
  for (size_t part = 0; part < parts.size(); ++part) {
    const RangePart& whole = parts[part];
    if (!is_on_host_) {
      StateArrays state = view(whole);
      update(part, whole, state);
      continue;
    }
    const int64_t step = values_per_window(whole.range);
    for (int64_t done = 0; done < whole.count; done += step) {
      bring_and_update(part,
                       {.range = whole.range,
                        .first = whole.first + done,
                        .count = std::min(step, whole.count - done)},
                       update);
    }
  }
  if (outgoing_) outgoing_->set(all_out_);
}

void OptimizerState::bring_and_update(size_t part, const RangePart& piece, const Update& update) {
  Window& window = windows_[next_window_];
  next_window_ = (next_window_ + 1) % windows_.size();
  StateArrays here = in_window(window, piece);
  incoming_->follow(window.is_free);
  copy(*incoming_, piece, here, /*to_host=*/false);
  incoming_->device_follows();
  update(part, piece, here);
  outgoing_->follow_device();
  copy(*outgoing_, piece, here, /*to_host=*/true);
  outgoing_->set(window.is_free);
}

void OptimizerState::copy(device::CopyLane& lane, const RangePart& piece, const StateArrays& here,
                          bool to_host) {
  for (size_t i = 0; i < kNumArrays; ++i) {
    const ArrayForm& array = forms_[piece.range][i];
    if (!array.is_there) continue;
    kernels::report_cost(
        to_host ? "state.to_host" : "state.to_device",
        {.bytes = static_cast<double>(array.num_bytes(piece.count)),
         .work = to_host ? kernels::Work::kCopyToHost : kernels::Work::kCopyToDevice,
         .frequency = kernels::Frequency::kStep});
    if (is_dry_) continue;
    const at::Tensor& on_device = here.*StateArrays::kAll[i];
    const at::Tensor& on_host = arrays_[piece.range].*StateArrays::kAll[i];
    void* const there =
        static_cast<std::byte*>(on_host.mutable_data_ptr()) + array.num_bytes(piece.first);
    void* const near = on_device.mutable_data_ptr();
    lane.copy(to_host ? there : near, to_host ? near : there, array.num_bytes(piece.count));
  }
}

}  // namespace sotto::optim
