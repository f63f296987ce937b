// Arguments of the CPU version of BatchNorm's backward. Internal to that kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/norm/batch_norm.h"

namespace sotto::kernels {

struct BatchNormTask {
  const BatchNorm::BackwardInputs& in;
  const BatchNorm::Gradients& gradients;
  BatchNorm::Kind kind;
  const at::Tensor& dx;       // [N, D]
  const at::Tensor& partial;  // [S, 2 D], workspace: sums over rows for gamma, then for beta
  const at::Tensor& totals;   // [2, D], workspace
};

}  // namespace sotto::kernels
