#include "sotto/kernels/attention.h"

#include <fmt/ranges.h>

#include "sotto/kernels/attention_cpu.h"
#include "sotto/kernels/kernel.h"

namespace sotto::kernels {

namespace {

detail::AttentionShape checked_shape(const at::Tensor& qkv, const Packing& packing,
                                     const Attention::Options& options) {
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
  return {.packing = packing,
          .num_heads = options.num_heads,
          .head_size = head_size,
          .left = std::min(left, all),
          .right = std::min(right, all)};
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

int64_t num_probabilities(const detail::AttentionShape& shape) {
  int64_t count = 0;
  for (const int64_t length : shape.packing.lengths()) count += shape.num_heads * length * length;
  return count;
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
  const int64_t pairs = variant == Attention::Variant::kTiled
                            ? pairs_of(shape)
                            : num_probabilities(shape) / shape.num_heads;
  return 2.0 * num_products * static_cast<double>(shape.width()) * static_cast<double>(pairs);
}

void check_softmax(const at::Tensor& softmax, const at::Tensor& qkv,
                   const detail::AttentionShape& shape, Attention::Variant variant) {
  const bool tiled = variant == Attention::Variant::kTiled;
  const int64_t expected =
      tiled ? shape.num_heads * shape.packing.num_frames() : num_probabilities(shape);
  SOTTO_ASSERT(softmax.numel() == expected && softmax.is_contiguous() &&
                   softmax.scalar_type() == (tiled ? at::kFloat : qkv.scalar_type()),
               "softmax has shape [{}] and type {}, expected {} elements as forward made them",
               fmt::join(softmax.sizes(), ", "), c10::toString(softmax.scalar_type()), expected);
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
                                     const Options& options) {
  const detail::AttentionShape shape = checked_shape(qkv, packing, options);
  const bool tiled = options.variant == Variant::kTiled;
  const int64_t frames = packing.num_frames();
  Result result{.y = make_result({frames, shape.width()}, qkv),
                .softmax = tiled ? make_float_result({shape.num_heads, frames}, qkv)
                                 : make_result({num_probabilities(shape)}, qkv)};
  const double operands = bytes_of(qkv) + bytes_of(result.y) + bytes_of(result.softmax);
  if (tiled) {
    report_cost("attention.forward",
                {.flops = flops_of(shape, options.variant, 2.0), .bytes = operands});
    if (is_dry(qkv)) return result;
    require_cpu(qkv, "Attention");
    detail::attention_forward_cpu(qkv, shape, result);
    return result;
  }
  const at::Tensor scores = make_scores(qkv, shape);
  report_cost("attention_plain.forward",
              {.flops = flops_of(shape, options.variant, 2.0), .bytes = operands});
  if (is_dry(qkv)) return result;
  require_cpu(qkv, "Attention");
  detail::attention_plain_forward_cpu(qkv, shape, result, scores);
  return result;
}

at::Tensor Attention::backward(const BackwardInputs& in, const Packing& packing,
                               const Options& options) {
  const detail::AttentionShape shape = checked_shape(in.qkv, packing, options);
  const int64_t frames = packing.num_frames();
  check_rows(in.dy, "dy");
  SOTTO_ASSERT(in.dy.size(0) == frames && in.dy.size(1) == shape.width() &&
                   in.dy.scalar_type() == in.qkv.scalar_type(),
               "dy has shape [{}] for [{}, {}]", fmt::join(in.dy.sizes(), ", "), frames,
               shape.width());
  check_softmax(in.softmax, in.qkv, shape, options.variant);
  at::Tensor dqkv = make_result(in.qkv.sizes(), in.qkv);
  const double operands = 2.0 * bytes_of(in.qkv) + bytes_of(in.dy) + bytes_of(in.softmax);
  if (options.variant == Variant::kPlain) {
    const at::Tensor scores = make_scores(in.qkv, shape);
    // The four products of the gradients.
    report_cost("attention_plain.backward",
                {.flops = flops_of(shape, options.variant, 4.0), .bytes = operands});
    if (is_dry(in.qkv)) return dqkv;
    require_cpu(in.qkv, "Attention");
    detail::attention_plain_backward_cpu(in, shape, dqkv, scores);
    return dqkv;
  }
  check_same(in.dy, in.y, "y");
  const at::TensorOptions as_float = in.qkv.options().dtype(at::kFloat);
  const at::Tensor delta = make_workspace({shape.num_heads, frames}, as_float);
  at::Tensor dq_sum;
  if (in.qkv.scalar_type() != at::kFloat)
    dq_sum = make_workspace({frames, shape.width()}, as_float);
  // The four products of the gradients, and the scores once more.
  report_cost("attention.backward",
              {.flops = flops_of(shape, options.variant, 5.0), .bytes = operands + bytes_of(in.y)});
  if (is_dry(in.qkv)) return dqkv;
  require_cpu(in.qkv, "Attention");
  detail::attention_backward_cpu(in, shape, {.dqkv = dqkv, .delta = delta, .dq_sum = dq_sum});
  return dqkv;
}

}  // namespace sotto::kernels
