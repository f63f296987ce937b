// The problem as seen by Ctc's shared part and its CPU version. Internal to that kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "sotto/kernels/loss/ctc_lattice.h"

namespace sotto::kernels {

struct CtcProblem {
  const at::Tensor& logits;  // [N, V]
  const at::Tensor& labels;  // int32
  const at::Tensor& loss;    // [B]
  int64_t blank;
  bool with_gradient;  // replaces the logits
  at::Tensor softmax;  // [N, 2]: the largest logit; the inverse of the sum of exp(logit - largest)
  at::Tensor mantissas;
  at::Tensor exponents;
  at::Tensor descriptions;               // bytes, the utterances for the CUDA version
  std::vector<CtcUtterance> utterances;  // sorted by decreasing work
};

}  // namespace sotto::kernels
