// Attention in double precision by ATen and autograd, one utterance at a time, self-attention with
// an explicit mask: the truth of the kernel Attention.
#pragma once

#include <ATen/ATen.h>

#include "sotto/kernels/attention/attention.h"

namespace sotto::test {

// In double.
struct AttentionInputs {
  at::Tensor qkv;  // [N, 3 D]
  at::Tensor dy;   // [N, D]
  // The operands of relative positions; undefined where there are none.
  at::Tensor positions = {};      // [2 L - 1, D]
  at::Tensor content_bias = {};   // [D]
  at::Tensor position_bias = {};  // [D]
};

struct AttentionTruth {
  at::Tensor y;          // [N, D]
  at::Tensor dqkv;       // [N, 3 D]
  at::Tensor logsumexp;  // [H, N]
  // Undefined without relative positions.
  at::Tensor d_positions;
  at::Tensor d_content_bias;
  at::Tensor d_position_bias;
};

AttentionTruth attention_truth(const AttentionInputs& in, const kernels::Packing& packing,
                               const kernels::Attention::Options& options);

// In double.
struct CrossAttentionInputs {
  at::Tensor q;   // [N, D]
  at::Tensor kv;  // [M, 2 D]
  at::Tensor dy;  // [N, D]
};

struct CrossAttentionTruth {
  at::Tensor y;          // [N, D]
  at::Tensor dq;         // [N, D]
  at::Tensor dkv;        // [M, 2 D]
  at::Tensor logsumexp;  // [H, N]
};

CrossAttentionTruth cross_attention_truth(const CrossAttentionInputs& in,
                                          const kernels::Attention::Packs& packs,
                                          int64_t num_heads);

}  // namespace sotto::test
