#include "sotto/kernels/attention/attention.h"

#include <fmt/ranges.h>

#include <array>
#include <string_view>

#include "sotto/device/cuda_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/attention/attention_cpu.h"
#include "sotto/kernels/attention/attention_library.h"
#include "sotto/kernels/attention/attention_plain.h"
#include "sotto/kernels/attention/attention_relative.h"
#include "sotto/kernels/attention/attention_task.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
SOTTO_CUDA_ENTRY void attention_forward_cuda(const CudaAttentionTask& task, void* stream);
SOTTO_CUDA_ENTRY void attention_backward_cuda(const CudaAttentionTask& task,
                                              const CudaAttentionGradients& gradients,
                                              void* stream);
}  // namespace detail

namespace {

using detail::AttentionBackward;
using detail::AttentionOperands;
using detail::AttentionShape;
using detail::LibraryAttention;
using detail::operands_of;

// --- checks of arguments

// Checks that there is one row for each frame of the pack, with `num_parts` of all heads; returns
// the head size.
int64_t checked_head_size(const at::Tensor& rows, const Packing& packing, int64_t num_heads,
                          int64_t num_parts) {
  check_rows(rows, "q, k or v");
  SOTTO_ASSERT(rows.size(0) == packing.num_frames(), "{} rows for {} frames", rows.size(0),
               packing.num_frames());
  SOTTO_ASSERT(num_heads > 0 && rows.size(1) % (num_parts * num_heads) == 0,
               "{} columns for {} of q, k and v of {} heads", rows.size(1), num_parts, num_heads);
  const int64_t head_size = rows.size(1) / (num_parts * num_heads);
  SOTTO_ASSERT(head_size > 0 && head_size <= Attention::kMaxHeadSize, "a head size of {}",
               head_size);
  return head_size;
}

AttentionShape checked_shape(const at::Tensor& qkv, const Packing& packing,
                             const Attention::Options& options,
                             const Attention::Relative* relative) {
  const int64_t head_size = checked_head_size(qkv, packing, options.num_heads, 3);
  // A window longer than every utterance has no effect.
  const int64_t all = packing.max_length();
  const int64_t left = options.left.value_or(all);
  const int64_t right = options.right.value_or(all);
  SOTTO_ASSERT(left >= 0 && right >= 0, "a window of {} frames to the left, {} to the right", left,
               right);
  const AttentionShape shape{.queries = packing,
                             .keys = packing,
                             .num_heads = options.num_heads,
                             .head_size = head_size,
                             .left = std::min(left, all),
                             .right = std::min(right, all),
                             .relative = relative};
  if (relative == nullptr) return shape;
  SOTTO_ASSERT(options.variant == Attention::Variant::kTiled,
               "relative positions have no plain variant");
  detail::check_relative(qkv, shape);
  return shape;
}

AttentionShape checked_cross_shape(const Attention::CrossInputs& in, const Attention::Packs& packs,
                                   const Attention::Options& options) {
  SOTTO_ASSERT(!options.left && !options.right && options.variant == Attention::Variant::kTiled,
               "cross-attention has no window and no plain variant");
  SOTTO_ASSERT(packs.queries.num_utterances() == packs.keys.num_utterances(),
               "queries of {} utterances for keys of {}", packs.queries.num_utterances(),
               packs.keys.num_utterances());
  const int64_t head_size = checked_head_size(in.q, packs.queries, options.num_heads, 1);
  const int64_t key_head_size = checked_head_size(in.kv, packs.keys, options.num_heads, 2);
  SOTTO_ASSERT(head_size == key_head_size && in.q.scalar_type() == in.kv.scalar_type() &&
                   in.q.device() == in.kv.device(),
               "queries have heads of {} {}, keys of {} {}", head_size,
               c10::toString(in.q.scalar_type()), key_head_size,
               c10::toString(in.kv.scalar_type()));
  const int64_t all = std::max(packs.queries.max_length(), packs.keys.max_length());
  return {.queries = packs.queries,
          .keys = packs.keys,
          .num_heads = options.num_heads,
          .head_size = head_size,
          .left = all,
          .right = all};
}

// --- costs

// Returns the operations of products over all heads, two per multiply-add. The plain variant also
// computes the scores that it masks.
double flops_of(const AttentionShape& shape, Attention::Variant variant, double num_products) {
  const int64_t pairs = variant == Attention::Variant::kTiled
                            ? shape.num_pairs()
                            : shape.num_scores() / shape.num_heads;
  return 2.0 * num_products * static_cast<double>(shape.width()) * static_cast<double>(pairs);
}

// Relative positions without tensor cores are computed in fp32, whatever the type.
Work work_of(const at::Tensor& rows, const AttentionShape& shape) {
  const bool is_simple = is_for_cuda(rows) && shape.relative != nullptr &&
                         !detail::has_relative_on_tensor_cores(rows, shape);
  return rows.scalar_type() == at::kFloat || is_simple ? Work::kAttention32 : Work::kAttention16;
}

// Bytes of q, k and v.
double operand_bytes(const AttentionOperands& in, const AttentionShape& shape) {
  const int64_t rows = shape.queries.num_frames() + 2 * shape.keys.num_frames();
  return static_cast<double>(rows * shape.width()) * static_cast<double>(in.q.rows.itemsize());
}

// Products of the term of positions: the scores; in backward also the gradients of queries and of
// positions.
double relative_products(const AttentionShape& shape, double num_products) {
  return shape.relative == nullptr ? 0.0 : num_products;
}

double position_bytes(const AttentionShape& shape) {
  return shape.relative == nullptr ? 0.0 : bytes_of(shape.relative->positions);
}

// --- tiled, by a library

// Returns whether a library computes it on the GPU that the tensor is on, or represents.
// No library computes relative positions inside of tiles.
bool is_for_library(const at::Tensor& rows, const AttentionShape& shape) {
  return is_for_cuda(rows) && shape.relative == nullptr &&
         LibraryAttention::has(shape, rows.scalar_type(), target_of(rows));
}

LibraryAttention in_library(const at::Tensor& rows, const AttentionShape& shape) {
  return {shape, rows.scalar_type(), target_of(rows)};
}

std::vector<int64_t> logsumexp_sizes(const at::Tensor& rows, const AttentionShape& shape) {
  if (is_for_library(rows, shape)) return in_library(rows, shape).softmax_sizes();
  return {shape.num_heads, shape.queries.num_frames()};
}

// The call allocates its own results: they are placed before it, as in a dry run.
Attention::Result forward_in_library(const AttentionOperands& in, const AttentionShape& shape) {
  const at::Tensor& like = in.q.rows;
  const LibraryAttention attention = in_library(like, shape);
  const std::vector<int64_t> y_sizes = {like.size(0), shape.width()};
  const std::vector<int64_t> softmax_sizes = attention.softmax_sizes();
  if (is_dry(like)) {
    Attention::Result result{.y = make_result(y_sizes, like),
                             .softmax = make_float_result(softmax_sizes, like)};
    const device::LibraryCall call(attention.name(), at::kMeta, attention.forward_bytes());
    return result;
  }
  const std::array<int64_t, 2> results = {
      c10::multiply_integers(y_sizes) * static_cast<int64_t>(like.itemsize()),
      c10::multiply_integers(softmax_sizes) * static_cast<int64_t>(sizeof(float))};
  const device::LibraryCall call(attention.name(), at::kCUDA, attention.forward_bytes(), results);
  return attention.forward(in);
}

// Returns the dqkv of a call that allocates it itself.
at::Tensor dqkv_of_library(const AttentionBackward& in, const AttentionShape& shape) {
  const at::Tensor& qkv = in.in.q.rows;
  const LibraryAttention attention = in_library(qkv, shape);
  if (is_dry(qkv)) {
    at::Tensor dqkv = make_result(qkv.sizes(), qkv);
    const device::LibraryCall call(attention.name(), at::kMeta, attention.dqkv_bytes());
    return dqkv;
  }
  const std::array<int64_t, 1> results = {static_cast<int64_t>(qkv.nbytes())};
  const device::LibraryCall call(attention.name(), at::kCUDA, attention.dqkv_bytes(), results);
  return attention.make_dqkv(in);
}

// Includes the wasted operations of a library that has no kernel for this head size and rounds it
// up.
double tiled_flops(const at::Tensor& rows, const AttentionShape& shape, double num_products) {
  const double flops = flops_of(shape, Attention::Variant::kTiled, num_products);
  if (!is_for_library(rows, shape)) return flops;
  return flops * static_cast<double>(in_library(rows, shape).computed_head_size()) /
         static_cast<double>(shape.head_size);
}

double backward_slowdown(const at::Tensor& rows, const AttentionShape& shape) {
  return is_for_library(rows, shape) ? in_library(rows, shape).backward_slowdown() : 1.0;
}

// --- tiled

CudaHeadRows cuda_rows(const detail::HeadColumns& x) {
  auto* data = static_cast<char*>(x.rows.data_ptr());
  return {.first = data + x.first_column * static_cast<int64_t>(x.rows.itemsize()),
          .stride = x.rows.size(1)};
}

CudaAttentionOperands cuda_operands(const AttentionOperands& operands) {
  return {.q = cuda_rows(operands.q), .k = cuda_rows(operands.k), .v = cuda_rows(operands.v)};
}

CudaAttentionTask cuda_task(const AttentionOperands& in, const at::Tensor& y,
                            const at::Tensor& softmax, const AttentionShape& shape) {
  return {.in = cuda_operands(in),
          .y = cuda_array(y),
          .logsumexp = softmax.mutable_data_ptr<float>(),
          .queries = cuda_pack(shape.queries),
          .keys = cuda_pack(shape.keys),
          .num_heads = shape.num_heads,
          .head_size = shape.head_size,
          .left = shape.left,
          .right = shape.right};
}

Attention::Result forward_tiled(const AttentionOperands& in, const AttentionShape& shape,
                                std::string_view name) {
  const at::Tensor& like = in.q.rows;
  const int64_t frames = like.size(0);
  const double y_bytes =
      static_cast<double>(frames * shape.width()) * static_cast<double>(like.itemsize());
  report_cost(name, {.flops = tiled_flops(like, shape, 2.0 + relative_products(shape, 1.0)),
                     .bytes = operand_bytes(in, shape) + y_bytes + position_bytes(shape),
                     .work = work_of(like, shape)});
  if (is_for_library(like, shape)) return forward_in_library(in, shape);
  Attention::Result result{.y = make_result({frames, shape.width()}, like),
                           .softmax = make_float_result({shape.num_heads, frames}, like)};
  const detail::RelativeForward relative(like, shape);
  if (is_dry(like)) return result;
  if (like.is_cuda()) {
    CudaAttentionTask task = cuda_task(in, result.y, result.softmax, shape);
    task.relative = relative.inputs(shape);
    detail::attention_forward_cuda(task, device::current_cuda_stream());
  } else {
    detail::attention_forward_cpu(in, shape, result);
  }
  return result;
}

void check_backward(const at::Tensor& dy, const at::Tensor& like, const AttentionShape& shape) {
  check_rows(dy, "dy");
  SOTTO_ASSERT(dy.size(0) == shape.queries.num_frames() && dy.size(1) == shape.width() &&
                   dy.scalar_type() == like.scalar_type(),
               "dy has shape [{}] for [{}, {}]", fmt::join(dy.sizes(), ", "),
               shape.queries.num_frames(), shape.width());
}

void check_softmax(const at::Tensor& softmax, int64_t num_elements, at::ScalarType type) {
  SOTTO_ASSERT(
      softmax.numel() == num_elements && softmax.is_contiguous() && softmax.scalar_type() == type,
      "softmax has shape [{}] and type {}, expected {} elements as forward made them",
      fmt::join(softmax.sizes(), ", "), c10::toString(softmax.scalar_type()), num_elements);
}

// Checks the arguments of backward and reports its cost.
void begin_backward(const AttentionBackward& in, const AttentionShape& shape,
                    std::string_view name) {
  const at::Tensor& like = in.in.q.rows;
  check_backward(in.dy, like, shape);
  check_softmax(in.softmax, c10::multiply_integers(logsumexp_sizes(like, shape)), at::kFloat);
  check_same(in.dy, in.y, "y");
  // The four products of the gradients, and the recomputed scores.
  report_cost(name, {.flops = backward_slowdown(like, shape) *
                              tiled_flops(like, shape, 5.0 + relative_products(shape, 3.0)),
                     .bytes = 2.0 * (operand_bytes(in.in, shape) + bytes_of(in.dy) +
                                     position_bytes(shape)) +
                              bytes_of(in.softmax),
                     .work = work_of(like, shape)});
}

void backward_tiled(const AttentionBackward& in, const AttentionShape& shape,
                    const AttentionOperands& gradients) {
  const bool dry = is_dry(in.dy);
  if (is_for_library(in.dy, shape)) {
    const LibraryAttention attention = in_library(in.dy, shape);
    const device::LibraryCall call(attention.name(), in.dy.device().type(),
                                   attention.backward_bytes());
    if (!dry) attention.backward(in, gradients);
    return;
  }
  const int64_t frames = in.dy.size(0);
  const at::TensorOptions as_float = in.dy.options().dtype(at::kFloat);
  const at::Tensor delta = make_workspace({shape.num_heads, frames}, as_float);
  const detail::RelativeBackward relative(in.dy, shape);
  if (is_for_cuda(in.dy)) {
    if (dry) return;
    CudaAttentionTask task = cuda_task(in.in, in.y, in.softmax, shape);
    task.relative = relative.inputs(shape);
    detail::attention_backward_cuda(task,
                                    {.dy = cuda_array(in.dy),
                                     .out = cuda_operands(gradients),
                                     .relative = relative.gradients(shape),
                                     .delta = delta.mutable_data_ptr<float>()},
                                    device::current_cuda_stream());
    return;
  }
  at::Tensor dq_sum;
  if (in.dy.scalar_type() != at::kFloat) dq_sum = make_workspace({frames, shape.width()}, as_float);
  if (dry) return;
  detail::attention_backward_cpu(in, shape,
                                 {.out = gradients,
                                  .delta = delta,
                                  .dq_sum = dq_sum,
                                  .position_sums = relative.position_sums(),
                                  .bias_sums = relative.row_sums()});
}

// --- plain

// Allocates the scores that exist at the same time; on the CPU, those of the longest utterance.
at::Tensor make_scores(const at::Tensor& qkv, const AttentionShape& shape) {
  const int64_t longest = shape.max_length();
  const int64_t scores = is_for_cuda(qkv) ? detail::plain_workspace_scores(shape)
                                          : shape.num_heads * longest * longest;
  return make_workspace({scores}, qkv.options().dtype(at::kFloat));
}

Attention::Result forward_plain(const at::Tensor& qkv, const AttentionShape& shape) {
  Attention::Result result{.y = make_result({qkv.size(0), shape.width()}, qkv),
                           .softmax = make_result({shape.num_scores()}, qkv)};
  const at::Tensor scores = make_scores(qkv, shape);
  report_cost("attention_plain.forward",
              {.flops = flops_of(shape, Attention::Variant::kPlain, 2.0),
               .bytes = bytes_of(qkv) + bytes_of(result.y) + bytes_of(result.softmax),
               .work = work_of(qkv, shape)});
  const device::LibraryCall call("plain attention", qkv.device().type(), 0);
  if (is_dry(qkv)) return result;
  if (qkv.is_cuda()) {
    detail::attention_plain_forward_library(qkv, shape, result, scores);
  } else {
    detail::attention_plain_forward_cpu(qkv, shape, result, scores);
  }
  return result;
}

at::Tensor backward_plain(const Attention::BackwardInputs& in, const AttentionShape& shape) {
  check_backward(in.dy, in.qkv, shape);
  check_softmax(in.softmax, shape.num_scores(), in.qkv.scalar_type());
  at::Tensor dqkv = make_result(in.qkv.sizes(), in.qkv);
  const at::Tensor scores = make_scores(in.qkv, shape);
  // The four products of the gradients.
  report_cost("attention_plain.backward",
              {.flops = flops_of(shape, Attention::Variant::kPlain, 4.0),
               .bytes = 2.0 * bytes_of(in.qkv) + bytes_of(in.dy) + bytes_of(in.softmax),
               .work = work_of(in.qkv, shape)});
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
  const AttentionShape shape{.queries = packing,
                             .keys = packing,
                             .num_heads = options.num_heads,
                             .head_size = 1,
                             .left = options.left.value_or(all),
                             .right = options.right.value_or(all)};
  return shape.num_pairs();
}

Attention::Result Attention::forward(const at::Tensor& qkv, const Packing& packing,
                                     const Options& options, const Relative* relative) {
  const AttentionShape shape = checked_shape(qkv, packing, options, relative);
  if (options.variant == Variant::kPlain) return forward_plain(qkv, shape);
  return forward_tiled(operands_of(qkv), shape, "attention.forward");
}

at::Tensor Attention::backward(const BackwardInputs& in, const Packing& packing,
                               const Options& options, const Relative* relative) {
  const AttentionShape shape = checked_shape(in.qkv, packing, options, relative);
  if (options.variant == Variant::kPlain) return backward_plain(in, shape);
  const AttentionBackward tiled{
      .dy = in.dy, .in = operands_of(in.qkv), .y = in.y, .softmax = in.softmax};
  begin_backward(tiled, shape, "attention.backward");
  if (is_for_library(in.qkv, shape) && in_library(in.qkv, shape).makes_dqkv())
    return dqkv_of_library(tiled, shape);
  at::Tensor dqkv = make_result(in.qkv.sizes(), in.qkv);
  backward_tiled(tiled, shape, operands_of(dqkv));
  return dqkv;
}

Attention::Result Attention::forward_cross(const CrossInputs& in, const Packs& packs,
                                           const Options& options) {
  const AttentionShape shape = checked_cross_shape(in, packs, options);
  return forward_tiled(operands_of(in.q, in.kv), shape, "attention_cross.forward");
}

Attention::CrossGradients Attention::backward_cross(const CrossBackwardInputs& in,
                                                    const Packs& packs, const Options& options) {
  const AttentionShape shape = checked_cross_shape({.q = in.q, .kv = in.kv}, packs, options);
  const AttentionBackward tiled{
      .dy = in.dy, .in = operands_of(in.q, in.kv), .y = in.y, .softmax = in.softmax};
  begin_backward(tiled, shape, "attention_cross.backward");
  CrossGradients gradients{.dq = make_result(in.q.sizes(), in.q),
                           .dkv = make_result(in.kv.sizes(), in.kv)};
  backward_tiled(tiled, shape, operands_of(gradients.dq, gradients.dkv));
  return gradients;
}

}  // namespace sotto::kernels
