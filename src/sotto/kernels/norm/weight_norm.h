// The weight of a convolution as a direction and a length for each tap, as in wav2vec2's positional
// convolution: w[o, i, k] = g[k] v[o, i, k] / |v[k]|, where |v[k]| is the root of the sum over o
// and i of v[o, i, k] squared. D output channels, C input channels per group, K taps. A tap that is
// all zeros has no direction: NaN.
//
// Allocates: forward w and norm. As workspace fp32 [slabs + 1, K] in forward and [slabs + 2, K] in
// backward: sums over o and i, and the factors of each tap.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct WeightNorm {
  struct Result {
    at::Tensor w;     // [D, C, K], in the requested type
    at::Tensor norm;  // [K] fp32, |v|
  };

  struct BackwardInputs {
    const at::Tensor& dw;    // [D, C, K] fp32
    const at::Tensor& v;     // [D, C, K]
    const at::Tensor& g;     // [K] fp32
    const at::Tensor& norm;  // [K]
  };

  struct Gradients {
    at::Tensor& v;  // [D, C, K] fp32, added to
    at::Tensor& g;  // [K] fp32, added to
  };

  // Returns w for v [D, C, K] and g [K] fp32, in `type`.
  static Result forward(const at::Tensor& v, const at::Tensor& g, at::ScalarType type);

  // Adds to the gradients of v and g.
  static void backward(const BackwardInputs& in, const Gradients& gradients);
};

}  // namespace sotto::kernels
