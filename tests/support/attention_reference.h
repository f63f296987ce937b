// Attention in double precision by ATen and autograd, one utterance at a time with an explicit
// mask: the truth of the kernel Attention.
#pragma once

#include <ATen/ATen.h>

#include "sotto/kernels/attention/attention.h"

namespace sotto::test {

// In double.
struct AttentionInputs {
  at::Tensor qkv;        // [N, 3 D]
  at::Tensor dy;         // [N, D]
  at::Tensor bias = {};  // [sum over utterances of H T_u T_u]; undefined: none
};

struct AttentionTruth {
  at::Tensor y;          // [N, D]
  at::Tensor dqkv;       // [N, 3 D]
  at::Tensor logsumexp;  // [H, N]
  at::Tensor d_bias;     // shape of the bias; undefined without one
};

AttentionTruth attention_truth(const AttentionInputs& in, const kernels::Packing& packing,
                               const kernels::Attention::Options& options);

}  // namespace sotto::test
