// The gradients of relative positions: sums of each utterance, added in the order of the
// utterances.
#include "sotto/kernels/attention/attention_relative_tile.h"
#include "sotto/kernels/simd/cpu_kernel.h"

namespace sotto::kernels::detail {

namespace {

using simd::Full;

// Adds the sums of one head of all utterances, in order.
template <class T>
void add_position_sums(const AttentionGradient& gradient, const AttentionShape& shape, int64_t head,
                       const Span& rows) {
  T* out = shape.relative->gradients->positions.mutable_data_ptr<T>() + head * shape.head_size;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    alignas(64) float sum[Attention::kMaxHeadSize] = {};
    for (int64_t u = 0; u < shape.num_utterances(); ++u) {
      const int64_t own = row - shape.first_position_of(u);
      if (own < 0 || own >= AttentionShape::num_positions_of_length(shape.num_queries_of(u)))
        continue;
      const float* from = relative_sums(gradient, shape, {u, head, {}, {}}).positions.row(own);
      for (int64_t i = 0; i < padded(shape.head_size); i += simd::kLanes)
        simd::store(sum + i, simd::load(sum + i, Full{}) + simd::load(from + i, Full{}), Full{});
    }
    simd::for_each_block(shape.head_size, [&](int64_t i, auto n) {
      simd::store(out + row * shape.width() + i,
                  simd::load(sum + i, Full{}) * score_scale(shape.head_size), n);
    });
  }
}

}  // namespace

RelativeSums relative_sums(const AttentionGradient& gradient, const AttentionShape& shape,
                           const Piece& piece) {
  if (shape.relative == nullptr) return {};
  const int64_t stride = padded(shape.head_size);
  const int64_t num_rows = shape.positions_before(shape.num_utterances());
  const int64_t row = piece.head * num_rows + shape.positions_before(piece.utterance);
  const int64_t of_biases = 2 * piece.utterance * shape.num_heads + piece.head;
  float* biases = gradient.bias_sums.mutable_data_ptr<float>();
  return {.positions = {gradient.position_sums.mutable_data_ptr<float>() + row * stride, stride},
          .content_bias = {biases + of_biases * stride, stride},
          .position_bias = {biases + (of_biases + shape.num_heads) * stride, stride}};
}

void add_relative_sums(const AttentionGradient& gradient, const AttentionShape& shape) {
  with_element_type(shape.relative->positions, [&](auto zero) {
    parallel_rows(shape.num_positions(), shape.width(), [&](int64_t begin, int64_t end) {
      for (int64_t head = 0; head < shape.num_heads; ++head)
        add_position_sums<decltype(zero)>(gradient, shape, head, {begin, end});
    });
  });
  float* content_bias = shape.relative->gradients->content_bias.mutable_data_ptr<float>();
  float* position_bias = shape.relative->gradients->position_bias.mutable_data_ptr<float>();
  for (int64_t u = 0; u < shape.num_utterances(); ++u) {
    for (int64_t head = 0; head < shape.num_heads; ++head) {
      const RelativeSums sums = relative_sums(gradient, shape, {u, head, {}, {}});
      for (int64_t i = 0; i < shape.head_size; ++i) {
        content_bias[head * shape.head_size + i] += sums.content_bias.at[i];
        position_bias[head * shape.head_size + i] += sums.position_bias.at[i];
      }
    }
  }
}

}  // namespace sotto::kernels::detail
