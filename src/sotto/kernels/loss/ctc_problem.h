// What Ctc's shared part and its CPU version know of a problem. Internal to that kernel.
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
  bool with_gradient;  // over the logits
  at::Tensor softmax;  // [N, 2]: the largest logit; one over the sum of exp(logit - largest)
  at::Tensor mantissas;
  at::Tensor exponents;
  at::Tensor descriptions;               // bytes, where the CUDA version has the utterances
  std::vector<CtcUtterance> utterances;  // the one with most work first
};

}  // namespace sotto::kernels
