// Arguments of the CUDA version of WeightNorm. R = D C rows, K taps.
#pragma once

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

struct WeightNormForward {
  CudaArray v;      // [R, K]
  CudaArray w;      // [R, K]
  CudaArray g;      // [K]
  CudaArray norm;   // [K]
  CudaArray space;  // [slabs + 1, K]: sums, then g / |v|
};

struct WeightNormBackward {
  CudaArray dw;      // [R, K]
  CudaArray v;       // [R, K]
  CudaArray g;       // [K]
  CudaArray norm;    // [K]
  CudaArray space;   // [slabs + 2, K]: sums, then the factors of dw and v
  CudaArray grad_v;  // [R, K], added to
  CudaArray grad_g;  // [K], added to
};

}  // namespace sotto::kernels
