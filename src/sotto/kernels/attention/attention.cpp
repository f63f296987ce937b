#include "sotto/kernels/attention/attention.h"

#include <fmt/ranges.h>

#include <array>
#include <string_view>

#include "sotto/device/cuda_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/attention/attention_cpu.h"
#include "sotto/kernels/attention/attention_library.h"
#include "sotto/kernels/attention/attention_task.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void attention_forward_cuda(const CudaAttentionTask& task, void* stream);
void attention_backward_cuda(const CudaAttentionTask& task, const CudaAttentionGradients& gradients,
                             void* stream);
void attention_plain_forward_library(const at::Tensor& qkv, const AttentionShape& shape,
                                     const Attention::Result& result, const at::Tensor& scores);
void attention_plain_backward_library(const Attention::BackwardInputs& in,
                                      const AttentionShape& shape, const at::Tensor& dqkv,
                                      const at::Tensor& scores);
}  // namespace detail

namespace {

int64_t num_scores(const detail::AttentionShape& shape) {
  return shape.scores_before(shape.packing.num_utterances());
}

// A tensor of the bias: a value for each score, of the type and device of qkv.
void check_scores(const at::Tensor& values, const at::Tensor& qkv,
                  const detail::AttentionShape& shape, std::string_view name) {
  SOTTO_ASSERT(values.dim() == 1 && values.numel() == num_scores(shape) && values.is_contiguous() &&
                   values.scalar_type() == qkv.scalar_type() && values.device() == qkv.device(),
               "{} has shape [{}] and type {}, expected [{}] and {}, where qkv is", name,
               fmt::join(values.sizes(), ", "), c10::toString(values.scalar_type()),
               num_scores(shape), c10::toString(qkv.scalar_type()));
}

detail::AttentionShape checked_shape(const at::Tensor& qkv, const Packing& packing,
                                     const Attention::Options& options,
                                     const Attention::Bias* bias) {
  check_rows(qkv, "qkv");
  SOTTO_ASSERT(qkv.size(0) == packing.num_frames(), "{} rows for {} frames", qkv.size(0),
               packing.num_frames());
  SOTTO_ASSERT(options.num_heads > 0 && qkv.size(1) % (3 * options.num_heads) == 0,
               "{} columns for q, k and v of {} heads", qkv.size(1), options.num_heads);
  const int64_t head_size = qkv.size(1) / (3 * options.num_heads);
  SOTTO_ASSERT(head_size > 0 && head_size <= Attention::kMaxHeadSize, "a head size of {}",
               head_size);
  // A window longer than every utterance is no window.
  const int64_t all = packing.max_length();
  const int64_t left = options.left.value_or(all);
  const int64_t right = options.right.value_or(all);
  SOTTO_ASSERT(left >= 0 && right >= 0, "a window of {} frames to the left, {} to the right", left,
               right);
  const detail::AttentionShape shape{.packing = packing,
                                     .num_heads = options.num_heads,
                                     .head_size = head_size,
                                     .left = std::min(left, all),
                                     .right = std::min(right, all),
                                     .bias = bias};
  if (bias != nullptr) check_scores(bias->values, qkv, shape, "a bias");
  if (shape.bias_gradient() != nullptr)
    check_scores(*bias->gradient, qkv, shape, "the gradient of a bias");
  return shape;
}

// Pairs with the key at most `reach` frames to one side of the query.
int64_t pairs_on_one_side(int64_t length, int64_t reach) {
  const int64_t most = std::min(reach, length - 1);
  return most * length - most * (most + 1) / 2;
}

int64_t pairs_of(const detail::AttentionShape& shape) {
  int64_t pairs = 0;
  for (const int64_t length : shape.packing.lengths()) {
    pairs +=
        length + pairs_on_one_side(length, shape.left) + pairs_on_one_side(length, shape.right);
  }
  return pairs;
}

// The scores of the longest utterance: others use the first part of it.
at::Tensor make_scores(const at::Tensor& qkv, const detail::AttentionShape& shape) {
  const int64_t longest = shape.packing.max_length();
  return make_workspace({shape.num_heads, longest, longest}, qkv.options().dtype(at::kFloat));
}

// Of products over all heads, two operations a multiply-add. The plain variant computes what it
// then masks.
double flops_of(const detail::AttentionShape& shape, Attention::Variant variant,
                double num_products) {
  const int64_t pairs =
      variant == Attention::Variant::kTiled ? pairs_of(shape) : num_scores(shape) / shape.num_heads;
  return 2.0 * num_products * static_cast<double>(shape.width()) * static_cast<double>(pairs);
}

Work work_of(const at::Tensor& qkv) {
  return qkv.scalar_type() == at::kFloat ? Work::kAttention32 : Work::kAttention16;
}

// What is read of a bias: that of the pairs that the variant computes.
double bias_bytes(const detail::AttentionShape& shape, Attention::Variant variant) {
  if (shape.bias == nullptr) return 0.0;
  if (variant == Attention::Variant::kPlain) return bytes_of(shape.bias->values);
  return static_cast<double>(shape.num_heads * pairs_of(shape)) *
         static_cast<double>(shape.bias->values.itemsize());
}

double bias_gradient_bytes(const detail::AttentionShape& shape) {
  const at::Tensor* gradient = shape.bias_gradient();
  return gradient == nullptr ? 0.0 : bytes_of(*gradient);
}

// Whether a library does it on the GPU that the tensor is on, or stands for. FlashAttention takes
// no bias, efficient attention one of padded rows.
bool is_for_library(const at::Tensor& qkv, const detail::AttentionShape& shape) {
  return is_for_cuda(qkv) && shape.bias == nullptr &&
         detail::LibraryAttention::has(shape, qkv.scalar_type(), target_of(qkv));
}

detail::LibraryAttention in_library(const at::Tensor& qkv, const detail::AttentionShape& shape) {
  return {shape, qkv.scalar_type(), target_of(qkv)};
}

std::vector<int64_t> logsumexp_sizes(const at::Tensor& qkv, const detail::AttentionShape& shape) {
  if (is_for_library(qkv, shape)) return in_library(qkv, shape).softmax_sizes();
  return {shape.num_heads, shape.packing.num_frames()};
}

void check_softmax(const at::Tensor& softmax, const at::Tensor& qkv,
                   const detail::AttentionShape& shape, Attention::Variant variant) {
  const bool tiled = variant == Attention::Variant::kTiled;
  int64_t expected = num_scores(shape);
  if (tiled) expected = c10::multiply_integers(logsumexp_sizes(qkv, shape));
  SOTTO_ASSERT(softmax.numel() == expected && softmax.is_contiguous() &&
                   softmax.scalar_type() == (tiled ? at::kFloat : qkv.scalar_type()),
               "softmax has shape [{}] and type {}, expected {} elements as forward made them",
               fmt::join(softmax.sizes(), ", "), c10::toString(softmax.scalar_type()), expected);
}

// The call allocates its results itself: they are placed before it, as a dry run places them.
Attention::Result forward_in_library(const at::Tensor& qkv, const detail::AttentionShape& shape) {
  const detail::LibraryAttention attention = in_library(qkv, shape);
  const std::vector<int64_t> y_sizes = {qkv.size(0), shape.width()};
  const std::vector<int64_t> softmax_sizes = attention.softmax_sizes();
  if (is_dry(qkv)) {
    Attention::Result result{.y = make_result(y_sizes, qkv),
                             .softmax = make_float_result(softmax_sizes, qkv)};
    const device::LibraryCall call(attention.name(), at::kMeta, attention.forward_bytes());
    return result;
  }
  const std::array<int64_t, 2> results = {
      c10::multiply_integers(y_sizes) * static_cast<int64_t>(qkv.itemsize()),
      c10::multiply_integers(softmax_sizes) * static_cast<int64_t>(sizeof(float))};
  const device::LibraryCall call(attention.name(), at::kCUDA, attention.forward_bytes(), results);
  return attention.forward(qkv);
}

at::Tensor backward_in_library(const Attention::BackwardInputs& in,
                               const detail::AttentionShape& shape) {
  const detail::LibraryAttention attention = in_library(in.qkv, shape);
  at::Tensor dqkv;
  std::vector<int64_t> results;
  if (is_dry(in.qkv) || !attention.allocates_gradient()) {
    dqkv = make_result(in.qkv.sizes(), in.qkv);
  } else {
    results.push_back(static_cast<int64_t>(in.qkv.nbytes()));
  }
  const device::LibraryCall call(attention.name(), in.qkv.device().type(),
                                 attention.backward_bytes(), results);
  return is_dry(in.qkv) ? dqkv : attention.backward(in, dqkv);
}

CudaAttentionTask cuda_task(const at::Tensor& qkv, const at::Tensor& y, const at::Tensor& softmax,
                            const detail::AttentionShape& shape) {
  return {.qkv = cuda_array(qkv),
          .y = cuda_array(y),
          .logsumexp = softmax.mutable_data_ptr<float>(),
          .pack = cuda_pack(shape.packing),
          .num_heads = shape.num_heads,
          .head_size = shape.head_size,
          .left = shape.left,
          .right = shape.right,
          .bias = shape.bias == nullptr ? CudaArray{} : cuda_array(shape.bias->values)};
}

// What a library computes for heads of a size that it has no kernel for, it computes in vain.
double tiled_flops(const at::Tensor& qkv, const detail::AttentionShape& shape,
                   double num_products) {
  const double flops = flops_of(shape, Attention::Variant::kTiled, num_products);
  if (!is_for_library(qkv, shape)) return flops;
  return flops * static_cast<double>(in_library(qkv, shape).computed_head_size()) /
         static_cast<double>(shape.head_size);
}

double backward_slowdown(const at::Tensor& qkv, const detail::AttentionShape& shape) {
  return is_for_library(qkv, shape) ? in_library(qkv, shape).backward_slowdown() : 1.0;
}

Attention::Result forward_tiled(const at::Tensor& qkv, const detail::AttentionShape& shape) {
  constexpr Attention::Variant kVariant = Attention::Variant::kTiled;
  report_cost("attention.forward",
              {.flops = tiled_flops(qkv, shape, 2.0),
               .bytes = 4.0 / 3.0 * bytes_of(qkv) + bias_bytes(shape, kVariant),
               .work = work_of(qkv)});
  if (is_for_library(qkv, shape)) return forward_in_library(qkv, shape);
  const int64_t frames = qkv.size(0);
  Attention::Result result{.y = make_result({frames, shape.width()}, qkv),
                           .softmax = make_float_result({shape.num_heads, frames}, qkv)};
  if (is_dry(qkv)) return result;
  if (qkv.is_cuda()) {
    detail::attention_forward_cuda(cuda_task(qkv, result.y, result.softmax, shape),
                                   device::current_cuda_stream());
  } else {
    detail::attention_forward_cpu(qkv, shape, result);
  }
  return result;
}

Attention::Result forward_plain(const at::Tensor& qkv, const detail::AttentionShape& shape) {
  Attention::Result result{.y = make_result({qkv.size(0), shape.width()}, qkv),
                           .softmax = make_result({num_scores(shape)}, qkv)};
  const at::Tensor scores = make_scores(qkv, shape);
  report_cost("attention_plain.forward",
              {.flops = flops_of(shape, Attention::Variant::kPlain, 2.0),
               .bytes = bytes_of(qkv) + bytes_of(result.y) + bytes_of(result.softmax) +
                        bias_bytes(shape, Attention::Variant::kPlain),
               .work = work_of(qkv)});
  const device::LibraryCall call("plain attention", qkv.device().type(), 0);
  if (is_dry(qkv)) return result;
  if (qkv.is_cuda()) {
    detail::attention_plain_forward_library(qkv, shape, result, scores);
  } else {
    detail::attention_plain_forward_cpu(qkv, shape, result, scores);
  }
  return result;
}

at::Tensor backward_tiled(const Attention::BackwardInputs& in,
                          const detail::AttentionShape& shape) {
  check_same(in.dy, in.y, "y");
  // The four products of the gradients, and the scores once more.
  constexpr Attention::Variant kVariant = Attention::Variant::kTiled;
  report_cost("attention.backward",
              {.flops = backward_slowdown(in.qkv, shape) * tiled_flops(in.qkv, shape, 5.0),
               .bytes = 2.0 * (bytes_of(in.qkv) + bytes_of(in.dy)) + bytes_of(in.softmax) +
                        bias_bytes(shape, kVariant) + bias_gradient_bytes(shape),
               .work = work_of(in.qkv)});
  if (is_for_library(in.qkv, shape)) return backward_in_library(in, shape);
  at::Tensor dqkv = make_result(in.qkv.sizes(), in.qkv);
  const int64_t frames = in.qkv.size(0);
  const at::TensorOptions as_float = in.qkv.options().dtype(at::kFloat);
  const at::Tensor delta = make_workspace({shape.num_heads, frames}, as_float);
  const at::Tensor* d_bias = shape.bias_gradient();
  // Tiles in which no pair is seen are not met.
  if (d_bias != nullptr && shape.has_window() && !is_dry(in.qkv)) d_bias->zero_();
  if (is_for_cuda(in.qkv)) {
    if (is_dry(in.qkv)) return dqkv;
    detail::attention_backward_cuda(
        cuda_task(in.qkv, in.y, in.softmax, shape),
        {.dy = cuda_array(in.dy),
         .dqkv = cuda_array(dqkv),
         .d_bias = d_bias == nullptr ? CudaArray{} : cuda_array(*d_bias),
         .delta = delta.mutable_data_ptr<float>()},
        device::current_cuda_stream());
    return dqkv;
  }
  at::Tensor dq_sum;
  if (in.qkv.scalar_type() != at::kFloat)
    dq_sum = make_workspace({frames, shape.width()}, as_float);
  if (is_dry(in.qkv)) return dqkv;
  detail::attention_backward_cpu(in, shape, {.dqkv = dqkv, .delta = delta, .dq_sum = dq_sum});
  return dqkv;
}

at::Tensor backward_plain(const Attention::BackwardInputs& in,
                          const detail::AttentionShape& shape) {
  at::Tensor dqkv = make_result(in.qkv.sizes(), in.qkv);
  const at::Tensor scores = make_scores(in.qkv, shape);
  // The four products of the gradients.
  report_cost("attention_plain.backward",
              {.flops = flops_of(shape, Attention::Variant::kPlain, 4.0),
               .bytes = 2.0 * bytes_of(in.qkv) + bytes_of(in.dy) + bytes_of(in.softmax) +
                        bias_gradient_bytes(shape),
               .work = work_of(in.qkv)});
  const device::LibraryCall call("plain attention", in.qkv.device().type(), 0);
  if (is_dry(in.qkv)) return dqkv;
  if (in.qkv.is_cuda()) {
    detail::attention_plain_backward_library(in, shape, dqkv, scores);
  } else {
    detail::attention_plain_backward_cpu(in, shape, dqkv, scores);
  }
  return dqkv;
}

}  // namespace

int64_t Attention::num_pairs(const Packing& packing, const Options& options) {
  const int64_t all = packing.max_length();
  return pairs_of({.packing = packing,
                   .num_heads = options.num_heads,
                   .head_size = 1,
                   .left = options.left.value_or(all),
                   .right = options.right.value_or(all)});
}

Attention::Result Attention::forward(const at::Tensor& qkv, const Packing& packing,
                                     const Options& options, const Bias* bias) {
  const detail::AttentionShape shape = checked_shape(qkv, packing, options, bias);
  return options.variant == Variant::kTiled ? forward_tiled(qkv, shape) : forward_plain(qkv, shape);
}

at::Tensor Attention::backward(const BackwardInputs& in, const Packing& packing,
                               const Options& options, const Bias* bias) {
  const detail::AttentionShape shape = checked_shape(in.qkv, packing, options, bias);
  check_rows(in.dy, "dy");
  SOTTO_ASSERT(in.dy.size(0) == packing.num_frames() && in.dy.size(1) == shape.width() &&
                   in.dy.scalar_type() == in.qkv.scalar_type(),
               "dy has shape [{}] for [{}, {}]", fmt::join(in.dy.sizes(), ", "),
               packing.num_frames(), shape.width());
  check_softmax(in.softmax, in.qkv, shape, options.variant);
  return options.variant == Variant::kTiled ? backward_tiled(in, shape) : backward_plain(in, shape);
}

}  // namespace sotto::kernels
