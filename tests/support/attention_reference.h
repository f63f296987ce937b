// Attention in double precision by ATen and autograd, one utterance at a time with an explicit
// mask: the truth of the kernel Attention.
#pragma once

#include <ATen/ATen.h>

#include "sotto/kernels/attention.h"

namespace sotto::test {

struct AttentionTruth {
  at::Tensor y;          // [N, D]
  at::Tensor dqkv;       // [N, 3 D]
  at::Tensor logsumexp;  // [H, N]
};

// qkv [N, 3 D] and dy [N, D] in double.
AttentionTruth attention_truth(const at::Tensor& qkv, const at::Tensor& dy,
                               const kernels::Packing& packing,
                               const kernels::Attention::Options& options);

}  // namespace sotto::test
