// What the CUDA version of attention is given. Internal to the kernel, and without LibTorch.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

struct CudaAttentionTask {
  CudaArray qkv;               // [N, 3 D]
  CudaArray y;                 // [N, D]
  float* logsumexp = nullptr;  // [H, N]
  CudaPack pack;
  int64_t num_heads = 1;
  int64_t head_size = 1;
  int64_t left = 0;
  int64_t right = 0;
  CudaArray bias;  // [sum over utterances of H T_u T_u]; without data: none
};

struct CudaAttentionGradients {
  CudaArray dy;            // [N, D]
  CudaArray dqkv;          // [N, 3 D]
  CudaArray d_bias;        // shape of bias; without data: not wanted
  float* delta = nullptr;  // [H, N], workspace
};

// The scores of one utterance in plain attention. T frames.
struct CudaPlainScores {
  float* scores = nullptr;        // [H, T, T]: scores without their scale, or gradients
  void* probabilities = nullptr;  // [H, T, T]
  ElementType type = ElementType::kFloat;
  int64_t num_heads = 1;
  int64_t length = 0;  // T
  int64_t left = 0;
  int64_t right = 0;
  float scale = 1.0f;
  void* d_bias = nullptr;  // [H, T, T] or null: gradients without the scale
};

}  // namespace sotto::kernels
