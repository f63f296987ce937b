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

}  // namespace

AttentionTruth attention_truth(const at::Tensor& qkv, const at::Tensor& dy,
                               const kernels::Packing& packing,
                               const kernels::Attention::Options& options) {
  const at::Tensor leaf = qkv.detach().clone().set_requires_grad(true);
  const int64_t width = dy.size(1);
  std::vector<at::Tensor> ys;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& utterance : leaf.split_with_sizes(packing.lengths())) {
    const int64_t length = utterance.size(0);
    const auto parts =
        utterance.view({length, 3, options.num_heads, -1}).permute({1, 2, 0, 3}).unbind(0);
    const at::Tensor mask = visible(length, options);
    const at::Tensor y = at::scaled_dot_product_attention(
        parts[0].unsqueeze(0), parts[1].unsqueeze(0), parts[2].unsqueeze(0), mask);
    ys.push_back(y.squeeze(0).transpose(0, 1).reshape({length, width}));
    const int64_t head_size = width / options.num_heads;
    const double scale = std::sqrt(static_cast<double>(head_size));
    const at::Tensor scores = at::matmul(parts[0], parts[1].transpose(1, 2)) / scale;
    const at::Tensor seen = scores.masked_fill(mask.logical_not(), -INFINITY);
    sums.push_back(seen.logsumexp(2).detach());
  }
  const at::Tensor y = at::cat(ys);
  y.backward(dy);
  return {.y = y.detach(), .dqkv = leaf.grad(), .logsumexp = at::cat(sums, 1)};
}

}  // namespace sotto::test
