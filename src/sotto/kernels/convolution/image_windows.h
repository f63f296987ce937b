// Gathers the values that each 3 x 3 window with stride 2 over (time, bins) sees into one row: a
// product with the weights is then the convolution. N frames, M windows along time, F bins, F'
// windows along bins, C channels. A row holds the channels of tap (0, 0), then of (0, 1) and so on:
// time, then bins. Zeros stand for what is outside of the utterance and of its bins.
//
// Allocates: forward the windows; backward dx.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/convolution/image_shape.h"

namespace sotto::kernels {

// Packings of a convolution's input and output.
struct ImagePackings {
  const Packing& from;  // N frames
  const Packing& to;    // M windows

  // Checks that the lengths fit each other.
  void check(const ImageShape& shape) const;
};

struct ImageWindows {
  // Returns windows [M F', 9 C] of x [N, F C].
  static at::Tensor forward(const at::Tensor& x, const ImagePackings& packings,
                            const ImageShape& shape);

  // Returns dx [N, F C] of dy [M F', 9 C].
  static at::Tensor backward(const at::Tensor& dy, const ImagePackings& packings,
                             const ImageShape& shape);
};

}  // namespace sotto::kernels
