#include "support/attention_reference.h"

#include <cmath>
#include <vector>

namespace sotto::test {

namespace {

// [T, T], true where a query (row) sees a key.
at::Tensor visible(int64_t length, const kernels::Attention::Options& options) {
  const at::Tensor frames = at::arange(length);
  const at::Tensor distance = frames.unsqueeze(0) - frames.unsqueeze(1);  // key - query
  return (distance >= -options.left.value_or(length)) &
         (distance <= options.right.value_or(length));
}

at::Tensor leaf_of(const at::Tensor& x) {
  return x.detach().clone().set_requires_grad(true);
}

// The leaves of relative positions.
struct RelativeLeaves {
  at::Tensor positions;
  at::Tensor content_bias;
  at::Tensor position_bias;
};

// Scores [H, T, T] of q and k [H, T, D / H], unscaled: all distances by one product, and then the
// one of each pair.
at::Tensor relative_scores(const at::Tensor& q, const at::Tensor& k, const RelativeLeaves& leaves) {
  const int64_t heads = q.size(0), length = q.size(1), size = q.size(2);
  const at::Tensor u = leaves.content_bias.view({heads, 1, size});
  const at::Tensor v = leaves.position_bias.view({heads, 1, size});
  const int64_t zero = (leaves.positions.size(0) - 1) / 2;  // row of distance 0
  const at::Tensor of_head =
      leaves.positions.view({-1, heads, size}).transpose(0, 1);  // [H, 2 L - 1, D / H]
  const at::Tensor by_row = at::matmul(q + v, of_head.transpose(1, 2));
  const at::Tensor frames = at::arange(length);
  const at::Tensor rows = zero - frames.unsqueeze(1) + frames.unsqueeze(0);  // [T, T]
  return at::matmul(q + u, k.transpose(1, 2)) +
         by_row.gather(2, rows.unsqueeze(0).expand({heads, length, length}));
}

}  // namespace

AttentionTruth attention_truth(const AttentionInputs& in, const kernels::Packing& packing,
                               const kernels::Attention::Options& options) {
  const at::Tensor leaf = leaf_of(in.qkv);
  const bool is_relative = in.positions.defined();
  RelativeLeaves relative;
  if (is_relative)
    relative = {leaf_of(in.positions), leaf_of(in.content_bias), leaf_of(in.position_bias)};
  const int64_t width = in.dy.size(1);
  std::vector<at::Tensor> ys;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& utterance : leaf.split_with_sizes(packing.lengths())) {
    const int64_t length = utterance.size(0);
    const auto parts =
        utterance.view({length, 3, options.num_heads, -1}).permute({1, 2, 0, 3}).unbind(0);
    const int64_t head_size = width / options.num_heads;
    const double scale = std::sqrt(static_cast<double>(head_size));
    const at::Tensor mask = visible(length, options);
    const at::Tensor unmasked = (is_relative ? relative_scores(parts[0], parts[1], relative)
                                             : at::matmul(parts[0], parts[1].transpose(1, 2))) /
                                scale;  // [H, T, T]
    const at::Tensor scores = unmasked.masked_fill(mask.logical_not(), -INFINITY);
    const at::Tensor y =
        is_relative ? at::matmul(at::softmax(scores, 2), parts[2])
                    : at::scaled_dot_product_attention(parts[0].unsqueeze(0), parts[1].unsqueeze(0),
                                                       parts[2].unsqueeze(0), mask);
    ys.push_back(
        y.view({options.num_heads, length, head_size}).transpose(0, 1).reshape({length, width}));
    sums.push_back(scores.logsumexp(2).detach());
  }
  const at::Tensor y = at::cat(ys);
  y.backward(in.dy);
  return {.y = y.detach(),
          .dqkv = leaf.grad(),
          .logsumexp = at::cat(sums, 1),
          .d_positions = is_relative ? relative.positions.grad() : at::Tensor(),
          .d_content_bias = is_relative ? relative.content_bias.grad() : at::Tensor(),
          .d_position_bias = is_relative ? relative.position_bias.grad() : at::Tensor()};
}

CrossAttentionTruth cross_attention_truth(const CrossAttentionInputs& in,
                                          const kernels::Attention::Packs& packs,
                                          int64_t num_heads) {
  const at::Tensor q = leaf_of(in.q);
  const at::Tensor kv = leaf_of(in.kv);
  const std::vector<at::Tensor> queries = q.split_with_sizes(packs.queries.lengths());
  const std::vector<at::Tensor> keys = kv.split_with_sizes(packs.keys.lengths());
  const int64_t width = in.q.size(1);
  const int64_t head_size = width / num_heads;
  const double scale = std::sqrt(static_cast<double>(head_size));
  std::vector<at::Tensor> ys;
  std::vector<at::Tensor> sums;
  for (size_t u = 0; u < queries.size(); ++u) {
    const at::Tensor of_queries =
        queries[u].view({-1, num_heads, width / num_heads}).transpose(0, 1);
    const auto parts =
        keys[u].view({-1, 2, num_heads, width / num_heads}).permute({1, 2, 0, 3}).unbind(0);
    const at::Tensor scores = at::matmul(of_queries, parts[0].transpose(1, 2)) / scale;
    const at::Tensor y = at::matmul(at::softmax(scores, 2), parts[1]);  // [H, T, D / H]
    ys.push_back(y.transpose(0, 1).reshape({-1, width}));
    sums.push_back(scores.logsumexp(2).detach());
  }
  const at::Tensor y = at::cat(ys);
  y.backward(in.dy);
  return {.y = y.detach(), .dq = q.grad(), .dkv = kv.grad(), .logsumexp = at::cat(sums, 1)};
}

}  // namespace sotto::test
