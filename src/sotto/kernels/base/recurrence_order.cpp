#include "sotto/kernels/base/recurrence_order.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"

namespace sotto::kernels {

namespace {

// Returns the sequences of a pack, longest first; equal ones stay in their order.
std::vector<size_t> longest_first(const std::vector<int64_t>& lengths) {
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  return order;
}

}  // namespace

RecurrenceOrder::RecurrenceOrder(const Packing& packing) {
  const std::vector<size_t> order = longest_first(packing.lengths());
  const auto num_rows = static_cast<size_t>(packing.num_frames());
  const auto num_later = num_rows - order.size();
  // One buffer, so that one copy brings all three to the device.
  std::vector<int32_t> values(2 * num_rows + num_later);
  const std::span packed = std::span(values).first(num_rows);
  const std::span ordered = std::span(values).subspan(num_rows, num_rows);
  const std::span earlier = std::span(values).subspan(2 * num_rows);
  size_t row = 0;
  for (int64_t step = 0; step < packing.max_length(); ++step) {
    const int64_t before = step == 0 ? 0 : first_rows_.back();
    first_rows_.push_back(static_cast<int64_t>(row));
    for (size_t i = 0; i < order.size() && packing.lengths()[order[i]] > step; ++i, ++row) {
      const int64_t packed_row = packing.starts()[order[i]] + step;
      packed[row] = static_cast<int32_t>(packed_row);
      ordered[static_cast<size_t>(packed_row)] = static_cast<int32_t>(row);
      if (step > 0)
        earlier[row - order.size()] = static_cast<int32_t>(before) + static_cast<int32_t>(i);
    }
  }
  first_rows_.push_back(static_cast<int64_t>(row));

  const device::CategoryScope category(device::Category::kData);
  const auto size = static_cast<int64_t>(values.size());
  const int64_t rows = packing.num_frames();
  at::Tensor all = at::empty({size}, packing.device_starts().options());
  packed_rows_ = all.narrow(0, 0, rows);
  ordered_rows_ = all.narrow(0, rows, rows);
  earlier_rows_ = all.narrow(0, 2 * rows, size - 2 * rows);
  if (all.is_meta()) return;
  // Does not wait: the driver copies the vector before the call returns.
  all.copy_(at::from_blob(values.data(), {size}, at::kInt), /*non_blocking=*/true);
}

int64_t RecurrenceOrder::first_row(int64_t step) const {
  return first_rows_.at(static_cast<size_t>(step));
}

int64_t RecurrenceOrder::rows_in(int64_t step) const {
  return step < num_steps() ? first_row(step + 1) - first_row(step) : 0;
}

}  // namespace sotto::kernels
