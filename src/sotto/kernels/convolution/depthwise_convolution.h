// A depthwise convolution over time: one filter per channel, stride 1, zero padding at the ends of
// an utterance and an output of the same length, as in the convolution module of a Conformer. N
// frames of a pack, C channels, K taps, an odd number.
//
//   y[t, c] = bias[c] + sum over k of weight[c, k] x[t + k - (K - 1) / 2, c]
//
// Frames of other utterances are never read; an utterance may be shorter than the taps.
//
// Allocates: forward y; input_gradient dx. As workspace, in fp32: both the taps [K, C]; accumulate
// sums of slabs of frames [S, K + 1, C].
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct DepthwiseConvolution {
  struct Parameters {
    const at::Tensor& weight;          // [C, K], fp32 or of the type of x
    const at::Tensor* bias = nullptr;  // [C] fp32; null: none
  };

  struct Ends {
    const at::Tensor& dy;  // [N, C]
    const at::Tensor& x;   // [N, C]
  };

  struct Gradients {
    at::Tensor& weight;          // [C, K] fp32, added to
    at::Tensor* bias = nullptr;  // [C] fp32, added to; null: none
  };

  // Returns the number of slabs S: more of them than a GPU needs would only move more bytes, K + 1
  // rows for each.
  static int64_t num_slabs(int64_t num_frames);

  // Returns y [N, C] of x [N, C].
  static at::Tensor forward(const at::Tensor& x, const Parameters& parameters,
                            const Packing& packing);

  // Returns dx [N, C] of dy [N, C]; weight [C, K] is forward's.
  static at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                   const Packing& packing);

  // Adds the parameters' gradients.
  static void accumulate(const Gradients& gradients, const Ends& ends, const Packing& packing);
};

}  // namespace sotto::kernels
