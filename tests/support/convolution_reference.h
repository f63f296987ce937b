// The grouped convolution by ATen in double precision, utterance by utterance, and its gradients by
// autograd.
#pragma once

#include <ATen/ATen.h>

#include "sotto/kernels/base/packing.h"

namespace sotto::test {

struct ConvolutionInputs {
  const at::Tensor& x;       // [N, D]
  const at::Tensor& dy;      // [N, D]
  const at::Tensor& weight;  // [D, C, K]
};

struct ConvolutionTruth {
  at::Tensor y;            // [N, D]
  at::Tensor dx;           // [N, D]
  at::Tensor grad_weight;  // [D, C, K]
};

// In double on the CPU, whatever and wherever the inputs are.
ConvolutionTruth convolution_truth(const ConvolutionInputs& in, const kernels::Packing& packing);

}  // namespace sotto::test
