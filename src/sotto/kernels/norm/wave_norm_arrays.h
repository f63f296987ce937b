// Arguments of the device versions of WaveNorm. Internal to that kernel.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

struct WaveStatistics {
  const float* samples = nullptr;  // [S]
  CudaPack pack;                   // of samples
  double* partial = nullptr;       // [B, slabs, W + W W]
  double* statistics = nullptr;    // [B, W + W W]
  int64_t size = 0;
  int64_t stride = 0;
  int64_t num_slabs = 0;
};

struct WaveFold {
  CudaArray weight;  // [O, W]
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const double* statistics = nullptr;
  // [B, O, W] and [B, O]: results of fold, inputs of backward.
  float* folded_weight = nullptr;
  float* folded_bias = nullptr;
  // Results of backward.
  float* grad_weight = nullptr;
  float* grad_gamma = nullptr;
  float* grad_beta = nullptr;
  int64_t num_utterances = 0;
  double epsilon = 0.0;
};

}  // namespace sotto::kernels
