// Adds position encodings to the frames of utterances in place. N frames of a pack, D width, P rows
// of a table of learned positions.
//
// Allocates nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

// Learned positions.
struct PositionAdd {
  // x [N, D] += table[position of the frame]; table [P, D] of x's type, P at least the longest
  // utterance.
  static void accumulate(at::Tensor& x, const at::Tensor& table, const Packing& packing);
  // grad_table [P, D] fp32 += dy [N, D], one utterance after another. dy itself is the gradient of
  // x.
  static void backward(const at::Tensor& dy, const Packing& packing, at::Tensor& grad_table);
};

// Alternating sines and cosines of the position at wavelengths from 2 pi to 10,000 * 2 pi (Vaswani
// et al. 2017, section 3.5). They have no gradient.
struct SinusoidAdd {
  // x [N, D] += sinusoids; D is even.
  static void accumulate(at::Tensor& x, const Packing& packing);
};

}  // namespace sotto::kernels
