// A depthwise convolution with windows of 3 x 3 and stride 2 over (time, bins): each channel has
// nine weights of its own. N frames, M windows along time, F bins, F' windows along bins, C
// channels. What is outside of the utterance and of its bins is zero.
//
// Allocates: forward y; input_gradient dx; both as workspace fp32 [9, C], the weight by tap;
// accumulate as workspace fp32 [slabs, 10, C].
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/convolution/image_windows.h"

namespace sotto::kernels {

struct ImageDepthwise {
  struct Weights {
    const at::Tensor& weight;  // [C, 9], time by bins; fp32 or of x's type
    const at::Tensor& bias;    // [C] fp32
  };

  struct Ends {
    const at::Tensor& dy;  // [M, F' C]
    const at::Tensor& x;   // [N, F C]
  };

  struct Gradients {
    at::Tensor& weight;  // [C, 9] fp32, added to
    at::Tensor& bias;    // [C] fp32, added to
  };

  // Returns y [M, F' C] of x [N, F C].
  static at::Tensor forward(const at::Tensor& x, const Weights& weights,
                            const ImagePackings& packings, const ImageShape& shape);

  // Returns dx [N, F C] of dy [M, F' C] and weight [C, 9].
  static at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                   const ImagePackings& packings, const ImageShape& shape);

  // Adds to the gradients of weight and bias.
  static void accumulate(const Gradients& gradients, const Ends& ends,
                         const ImagePackings& packings, const ImageShape& shape);
};

}  // namespace sotto::kernels
