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

// [H, T, T] of each utterance.
std::vector<at::Tensor> biases_of(const at::Tensor& bias, const kernels::Packing& packing,
                                  int64_t num_heads) {
  std::vector<at::Tensor> biases;
  int64_t first = 0;
  for (const int64_t length : packing.lengths()) {
    const int64_t size = num_heads * length * length;
    biases.push_back(bias.narrow(0, first, size).view({num_heads, length, length}));
    first += size;
  }
  return biases;
}

}  // namespace

AttentionTruth attention_truth(const AttentionInputs& in, const kernels::Packing& packing,
                               const kernels::Attention::Options& options) {
  const at::Tensor leaf = leaf_of(in.qkv);
  const at::Tensor bias = in.bias.defined() ? leaf_of(in.bias) : at::Tensor();
  std::vector<at::Tensor> biases;
  if (bias.defined()) biases = biases_of(bias, packing, options.num_heads);
  const int64_t width = in.dy.size(1);
  std::vector<at::Tensor> ys;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& utterance : leaf.split_with_sizes(packing.lengths())) {
    const int64_t length = utterance.size(0);
    const auto parts =
        utterance.view({length, 3, options.num_heads, -1}).permute({1, 2, 0, 3}).unbind(0);
    const int64_t head_size = width / options.num_heads;
    const double scale = std::sqrt(static_cast<double>(head_size));
    at::Tensor scores = at::matmul(parts[0], parts[1].transpose(1, 2)) / scale;  // [H, T, T]
    at::Tensor mask = visible(length, options);
    const at::Tensor hidden = mask.logical_not();
    if (bias.defined()) {
      const at::Tensor& added = biases[ys.size()];
      scores = scores + added;
      mask = added.masked_fill(hidden, -INFINITY).unsqueeze(0);
    }
    const at::Tensor y = at::scaled_dot_product_attention(
        parts[0].unsqueeze(0), parts[1].unsqueeze(0), parts[2].unsqueeze(0), mask);
    ys.push_back(y.squeeze(0).transpose(0, 1).reshape({length, width}));
    sums.push_back(scores.masked_fill(hidden, -INFINITY).logsumexp(2).detach());
  }
  const at::Tensor y = at::cat(ys);
  y.backward(in.dy);
  return {.y = y.detach(),
          .dqkv = leaf.grad(),
          .logsumexp = at::cat(sums, 1),
          .d_bias = bias.defined() ? bias.grad() : at::Tensor()};
}

CrossAttentionTruth cross_attention_truth(const CrossAttentionInputs& in,
                                          const kernels::Attention::Packs& packs,
                                          int64_t num_heads) {
  const at::Tensor q = leaf_of(in.q);
  const at::Tensor kv = leaf_of(in.kv);
  const std::vector<at::Tensor> queries = q.split_with_sizes(packs.queries.lengths());
  const std::vector<at::Tensor> keys = kv.split_with_sizes(packs.keys.lengths());
  const int64_t width = in.q.size(1);
  const double scale = std::sqrt(static_cast<double>(width / num_heads));
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
