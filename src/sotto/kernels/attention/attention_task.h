// What the CUDA version of attention is given. Internal to the kernel, and without LibTorch.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

// q, k or v of all heads, or a gradient: a row for each frame, some elements apart.
struct CudaHeadRows {
  void* first = nullptr;
  int64_t stride = 0;
};

// q has the rows of the queries, k and v those of the keys.
struct CudaAttentionOperands {
  CudaHeadRows q;
  CudaHeadRows k;
  CudaHeadRows v;
};

struct CudaAttentionTask {
  CudaAttentionOperands in;
  CudaArray y;                 // [N, D], of the type of all
  float* logsumexp = nullptr;  // [H, N]
  CudaPack queries;
  CudaPack keys;  // of the same utterances
  int64_t num_heads = 1;
  int64_t head_size = 1;
  int64_t left = 0;
  int64_t right = 0;
  CudaArray bias;  // for each utterance [H, queries, keys]; without data: none
};

struct CudaAttentionGradients {
  CudaArray dy;  // [N, D]
  CudaAttentionOperands out;
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
