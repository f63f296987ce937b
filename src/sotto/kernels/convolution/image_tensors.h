// Arguments of the CPU version of ImageDepthwise. Internal to that kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/convolution/image_windows.h"

namespace sotto::kernels {

struct ImageTensors {
  const at::Tensor& frames;   // [N, F C]: x, or its gradient
  const at::Tensor& outputs;  // [M, F' C]: y, or its gradient
  // fp32: [9, C], the weight by tap; or [slabs, 10, C], partial sums of the gradients by tap, the
  // bias's last
  const at::Tensor& taps;
  const ImagePackings& packings;
  const ImageShape& shape;
};

}  // namespace sotto::kernels
