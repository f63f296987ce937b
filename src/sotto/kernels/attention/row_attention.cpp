#include "sotto/kernels/attention/row_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/attention/row_attention_task.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void row_attention_cpu(const RowAttentionTask& task, const at::Tensor& y);
void row_attention_weights_cpu(const RowAttentionTask& task, const at::Tensor& q, float factor,
                               const at::Tensor& weights);
SOTTO_CUDA_ENTRY void row_attention_cuda(const RowAttentionTask& task, const CudaArray& y,
                                         void* stream);
SOTTO_CUDA_ENTRY void row_attention_weights_cuda(const RowAttentionTask& task, ElementType type,
                                                 float factor, const CudaArray& weights,
                                                 void* stream);
}  // namespace detail

namespace {

// Copies the values into the first rows of a tensor on any device.
void copy_to(const at::Tensor& to, std::vector<int32_t>& values) {
  SOTTO_ASSERT(std::ssize(values) <= to.numel(), "{} values where memory is for {}", values.size(),
               to.numel());
  if (to.is_meta() || values.empty()) return;
  const int64_t count = std::ssize(values);
  to.flatten().narrow(0, 0, count).copy_(at::from_blob(values.data(), {count}, at::kInt));
}

int32_t row_number(int64_t value) {
  SOTTO_ASSERT(value <= std::numeric_limits<int32_t>::max(), "row {}", value);
  return static_cast<int32_t>(value);
}

detail::RowAttentionTask checked_task(const RowAttention::Inputs& in, const SeenRows& seen,
                                      int64_t num_heads) {
  check_rows(in.q, "q");
  check_rows(in.kv, "kv");
  const int64_t width = in.kv.size(1) / 2;
  SOTTO_ASSERT(in.kv.size(1) == 2 * width && in.q.size(1) >= width, "q of width {}, kv of {}",
               in.q.size(1), in.kv.size(1));
  SOTTO_ASSERT(num_heads > 0 && width % num_heads == 0, "{} heads of width {}", num_heads, width);
  const int64_t head_size = width / num_heads;
  SOTTO_ASSERT(head_size <= RowAttention::kMaxHeadSize, "a head size of {}", head_size);
  SOTTO_ASSERT(in.q.scalar_type() == in.kv.scalar_type(), "keys of another type");
  SOTTO_ASSERT(in.q.size(0) == seen.num_queries(), "{} queries, rows for {}", in.q.size(0),
               seen.num_queries());
  SOTTO_ASSERT(seen.end() <= in.kv.size(0), "row {} of {} is seen", seen.end() - 1, in.kv.size(0));
  detail::RowAttentionTask task{.q = nullptr,
                                .q_stride = in.q.size(1),
                                .kv = nullptr,
                                .kv_stride = in.kv.size(1),
                                .ranges = nullptr,
                                .listed = nullptr,
                                .num_queries = in.q.size(0),
                                .num_heads = num_heads,
                                .head_size = head_size,
                                .scale = 1.0f / std::sqrt(static_cast<float>(head_size))};
  if (is_dry(in.q)) return task;
  task.q = in.q.const_data_ptr();
  task.kv = in.kv.const_data_ptr();
  task.ranges = seen.ranges().const_data_ptr<int32_t>();
  if (seen.listed().defined()) task.listed = seen.listed().const_data_ptr<int32_t>();
  return task;
}

// Each pair takes two products of the width, and reads a row of keys and one of values.
Cost row_cost(const RowAttention::Inputs& in, const SeenRows& seen) {
  const auto pairs = static_cast<double>(seen.num_pairs());
  const auto values = static_cast<double>(in.kv.size(1));
  return {.flops = 2.0 * pairs * values,
          .bytes = pairs * values * static_cast<double>(in.kv.itemsize())};
}

}  // namespace

SeenRows::SeenRows(int64_t max_queries, int64_t max_listed, const at::Device& device)
    : ranges_(at::empty({max_queries, 2}, at::TensorOptions().dtype(at::kInt).device(device))),
      listed_(at::empty({max_listed}, at::TensorOptions().dtype(at::kInt).device(device))) {}

void SeenRows::set_ranges(std::span<const Range> ranges) {
  std::vector<int32_t> values;
  has_lists_ = false;
  num_queries_ = std::ssize(ranges);
  num_pairs_ = max_count_ = end_ = 0;
  for (const Range& range : ranges) {
    values.push_back(row_number(range.first));
    values.push_back(row_number(range.count));
    num_pairs_ += range.count;
    max_count_ = std::max(max_count_, range.count);
    end_ = std::max(end_, range.first + range.count);
  }
  copy_to(ranges_, values);
}

void SeenRows::set_lists(const std::vector<std::vector<int32_t>>& lists) {
  std::vector<int32_t> places;
  std::vector<int32_t> rows;
  has_lists_ = true;
  num_queries_ = std::ssize(lists);
  max_count_ = end_ = 0;
  for (const std::vector<int32_t>& list : lists) {
    places.push_back(row_number(std::ssize(rows)));
    places.push_back(row_number(std::ssize(list)));
    rows.insert(rows.end(), list.begin(), list.end());
    max_count_ = std::max<int64_t>(max_count_, std::ssize(list));
    for (const int32_t row : list) end_ = std::max<int64_t>(end_, row + 1);
  }
  num_pairs_ = std::ssize(rows);
  copy_to(ranges_, places);
  copy_to(listed_, rows);
}

at::Tensor RowAttention::forward(const Inputs& in, const SeenRows& seen, int64_t num_heads) {
  const detail::RowAttentionTask task = checked_task(in, seen, num_heads);
  at::Tensor y = make_result({in.q.size(0), task.width()}, in.q);
  report_cost("row_attention", row_cost(in, seen));
  if (is_dry(y)) return y;
  if (y.is_cuda()) {
    detail::row_attention_cuda(task, cuda_array(y), device::current_cuda_stream());
  } else {
    detail::row_attention_cpu(task, y);
  }
  return y;
}

void RowAttention::add_weights(const Inputs& in, const SeenRows& seen, int64_t num_heads,
                               double factor, at::Tensor& weights) {
  const detail::RowAttentionTask task = checked_task(in, seen, num_heads);
  check_rows(weights, "weights");
  SOTTO_ASSERT(weights.scalar_type() == at::kFloat && weights.size(0) == in.q.size(0) &&
                   weights.size(1) >= seen.max_count(),
               "weights are [{}, {}]", weights.size(0), weights.size(1));
  report_cost("row_attention.weights", row_cost(in, seen));
  if (is_dry(weights)) return;
  if (weights.is_cuda()) {
    detail::row_attention_weights_cuda(task, cuda_array(in.q).type, static_cast<float>(factor),
                                       cuda_array(weights), device::current_cuda_stream());
  } else {
    detail::row_attention_weights_cpu(task, in.q, static_cast<float>(factor), weights);
  }
}

}  // namespace sotto::kernels
