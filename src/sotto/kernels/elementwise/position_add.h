// Adds position encodings to the frames of utterances in place; `first` is the position of each
// utterance's first frame. N frames of a pack, D width, P rows
// of a table of learned positions. Also the table of relative positions that attention uses.
//
// Allocates nothing but the table.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

// Learned positions.
struct PositionAdd {
  // x [N, D] += table[position of the frame]; table [P, D] of x's type, P at least the longest
  // utterance and `first`.
  static void accumulate(at::Tensor& x, const at::Tensor& table, const Packing& packing,
                         int64_t first = 0);
  // grad_table [P, D] fp32 += dy [N, D], one utterance after another. dy itself is the gradient of
  // x.
  static void backward(const at::Tensor& dy, const Packing& packing, at::Tensor& grad_table);
};

// Alternating sines and cosines of the position at wavelengths from 2 pi to 10,000 * 2 pi (Vaswani
// et al. 2017, section 3.5). They have no gradient.
struct SinusoidAdd {
  // x [N, D] += sinusoids; D is even.
  static void accumulate(at::Tensor& x, const Packing& packing, int64_t first = 0);
};

// The same sines and cosines of signed distances between frames: row i of [2 L - 1, D] is that of
// distance L - 1 - i, for the longest utterance L of a pack (Dai et al. 2019, section 3.3). D is
// even.
struct RelativeSinusoids {
  // `like`: its type and device.
  static at::Tensor forward(const Packing& packing, int64_t width, const at::TensorOptions& like);
};

}  // namespace sotto::kernels
