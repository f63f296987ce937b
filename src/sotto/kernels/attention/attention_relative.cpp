#include "sotto/kernels/attention/attention_relative.h"

#include <fmt/ranges.h>

#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/simd/lanes.h"

namespace sotto::kernels::detail {

namespace {

void check_biases(const at::Tensor& content, const at::Tensor& position, int64_t width) {
  check_float_vector(content, width, "the bias of contents");
  check_float_vector(position, width, "the bias of positions");
}

}  // namespace

// They need 16-bit types, rows that they can
// copy 8 bytes at a time, and up to 150 KiB of shared memory for a block, of which some cards have
// 99: enough for heads of up to 64.
bool has_relative_on_tensor_cores(const at::Tensor& like, const AttentionShape& shape) {
  if (!is_for_cuda(like) || like.scalar_type() == at::kFloat || shape.head_size % 4 != 0)
    return false;
  const int capability = target_of(like).capability;
  const bool has_large_memory =
      capability == 80 || capability == 87 || (capability >= 90 && capability < 120);
  return capability >= 80 && shape.head_size <= (has_large_memory ? 128 : 64);
}

void check_relative(const at::Tensor& qkv, const AttentionShape& shape) {
  const Attention::Relative& relative = *shape.relative;
  const at::Tensor& positions = relative.positions;
  check_rows(positions, "positions");
  SOTTO_ASSERT(positions.size(1) == shape.width() && positions.size(0) % 2 == 1 &&
                   positions.size(0) >= 2 * shape.max_length() - 1,
               "relative positions of shape [{}] for utterances of up to {} frames, expected at "
               "least [{}, {}] and an odd number of rows",
               fmt::join(positions.sizes(), ", "), shape.max_length(), 2 * shape.max_length() - 1,
               shape.width());
  SOTTO_ASSERT(positions.scalar_type() == qkv.scalar_type() && positions.device() == qkv.device(),
               "relative positions of type {}, expected {}, on the device of qkv",
               c10::toString(positions.scalar_type()), c10::toString(qkv.scalar_type()));
  check_biases(relative.content_bias, relative.position_bias, shape.width());
}

RelativeForward::RelativeForward(const at::Tensor& like, const AttentionShape& shape) {
  if (shape.relative == nullptr || !has_relative_on_tensor_cores(like, shape)) return;
  const at::TensorOptions as_float = like.options().dtype(at::kFloat);
  content_terms_ = make_workspace({shape.num_heads, shape.keys.num_frames()}, as_float);
  position_terms_ = make_workspace({shape.num_heads, shape.num_positions()}, as_float);
}

CudaRelative RelativeForward::inputs(const AttentionShape& shape) const {
  if (shape.relative == nullptr) return {};
  const Attention::Relative& relative = *shape.relative;
  CudaRelative inputs{.positions = cuda_array(relative.positions),
                      .content_bias = relative.content_bias.const_data_ptr<float>(),
                      .position_bias = relative.position_bias.const_data_ptr<float>()};
  if (!content_terms_.defined()) return inputs;
  inputs.content_terms = content_terms_.mutable_data_ptr<float>();
  inputs.position_terms = position_terms_.mutable_data_ptr<float>();
  return inputs;
}

RelativeBackward::RelativeBackward(const at::Tensor& dy, const AttentionShape& shape)
    : terms_(dy, shape) {
  if (shape.relative == nullptr) return;
  SOTTO_ASSERT(shape.relative->gradients != nullptr,
               "backward without gradients of relative positions");
  const at::Tensor& positions = shape.relative->positions;
  Attention::Relative::Gradients& gradients = *shape.relative->gradients;
  check_biases(gradients.content_bias, gradients.position_bias, shape.width());
  gradients.positions = make_result(positions.sizes(), positions);
  if (is_for_cuda(dy)) {
    allocate_for_cuda(dy, shape);
  } else {
    allocate_for_cpu(dy, shape);
  }
}

void RelativeBackward::allocate_for_cpu(const at::Tensor& dy, const AttentionShape& shape) {
  const at::TensorOptions as_float = dy.options().dtype(at::kFloat);
  const int64_t head_size = (shape.head_size + simd::kLanes - 1) / simd::kLanes * simd::kLanes;
  const int64_t num_rows = shape.positions_before(shape.num_utterances());
  position_sums_ = make_workspace({shape.num_heads, num_rows, head_size}, as_float);
  row_sums_ = make_workspace({shape.num_utterances(), 2, shape.num_heads, head_size}, as_float);
  if (is_dry(dy)) return;
  position_sums_.zero_();
  row_sums_.zero_();
}

void RelativeBackward::allocate_for_cuda(const at::Tensor& dy, const AttentionShape& shape) {
  const at::TensorOptions as_float = dy.options().dtype(at::kFloat);
  const int64_t num_keys = shape.keys.num_frames();
  key_sums_ = make_workspace({shape.num_heads, num_keys}, as_float);
  table_sums_ = make_workspace({shape.num_heads, shape.num_positions()}, as_float);
  slabs_ = make_workspace({num_row_slabs(num_keys), 2, shape.width()}, as_float);
  if (!has_relative_on_tensor_cores(dy, shape)) return;
  const bool is_deterministic = target_of(dy).is_deterministic;
  const int64_t num_rows =
      is_deterministic ? shape.positions_before(shape.num_utterances()) : shape.num_positions();
  query_sums_ = make_workspace({shape.queries.num_frames(), shape.width()}, as_float);
  position_sums_ = make_workspace({num_rows, shape.width()}, as_float);
  row_sums_ = make_workspace({shape.num_heads, num_rows}, as_float);
  if (!is_deterministic) return;
  const int64_t num_tiles = num_keys / 64 + shape.num_utterances();
  progress_ = make_workspace({shape.num_heads, num_tiles}, dy.options().dtype(at::kInt));
}

CudaRelativeGradients RelativeBackward::gradients(const AttentionShape& shape) const {
  if (shape.relative == nullptr) return {};
  const Attention::Relative::Gradients& results = *shape.relative->gradients;
  CudaRelativeGradients gradients{.positions = cuda_array(results.positions),
                                  .content_bias = results.content_bias.mutable_data_ptr<float>(),
                                  .position_bias = results.position_bias.mutable_data_ptr<float>(),
                                  .key_sums = key_sums_.mutable_data_ptr<float>(),
                                  .table_sums = table_sums_.mutable_data_ptr<float>(),
                                  .slabs = slabs_.mutable_data_ptr<float>(),
                                  .num_slabs = slabs_.size(0)};
  if (!query_sums_.defined()) return gradients;
  gradients.query_sums = query_sums_.mutable_data_ptr<float>();
  gradients.position_sums = position_sums_.mutable_data_ptr<float>();
  gradients.row_sums = row_sums_.mutable_data_ptr<float>();
  gradients.num_position_sums = position_sums_.size(0);
  if (progress_.defined()) gradients.progress = progress_.mutable_data_ptr<int32_t>();
  return gradients;
}

}  // namespace sotto::kernels::detail
