// Arguments of the CUDA versions of ImageWindows and ImageDepthwise. N frames, M windows along
// time, F bins, F' windows along bins, C channels.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/convolution/image_shape.h"

namespace sotto::kernels {

struct ImageWindowArrays {
  CudaArray frames;   // [N, F C]
  CudaArray windows;  // [M F', 9 C]
  CudaPack from;      // N frames
  CudaPack to;        // M windows
  ImageShape shape;
};

struct ImageDepthwiseArrays {
  CudaArray frames;   // [N, F C]: x, or its gradient
  CudaArray outputs;  // [M, F' C]: y, or its gradient
  CudaArray weight;   // [C, 9], or its gradient
  CudaArray bias;     // [C] fp32, or its gradient; absent for the gradient of x
  // fp32: [9, C], the weight by tap; or [slabs, 10, C], partial sums of the gradients by tap, the
  // bias's last
  CudaArray taps;
  CudaPack from;  // N frames
  CudaPack to;    // M windows
  ImageShape shape;
};

}  // namespace sotto::kernels
