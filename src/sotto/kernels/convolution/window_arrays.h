// Arguments of the CUDA version of FrameWindows. N frames, M windows, D width, W frames per window.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

struct FrameWindowArrays {
  CudaArray frames;   // [N, D]
  CudaArray windows;  // [M, W D]
  CudaPack from;      // N frames
  CudaPack to;        // M windows
  int64_t size = 0;
  int64_t stride = 0;
  int64_t before = 0;
};

}  // namespace sotto::kernels
