// Arguments of the CPU version of GroupedConvolution. Internal to that kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/convolution/convolution_shape.h"

namespace sotto::kernels {

// The CPU counterpart of CudaBlockRows.
struct BlockRows {
  const at::Tensor& frames;  // [N, D]
  const at::Tensor& rows;    // [R, frames per row * C]
  const Packing& packing;    // N frames
  const Packing& blocks;     // M blocks
  ConvolutionShape shape;
  int64_t first_block = 0;
  int64_t first_channel = 0;
  int64_t before = 0;
};

}  // namespace sotto::kernels
