// Arguments of the CUDA version of attention. Internal to the kernel, and without LibTorch.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

// q, k or v of all heads, or a gradient: one row per frame, with a stride in elements.
struct CudaHeadRows {
  void* first = nullptr;
  int64_t stride = 0;
};

// q has the rows of the queries, k and v have those of the keys.
struct CudaAttentionOperands {
  CudaHeadRows q;
  CudaHeadRows k;
  CudaHeadRows v;
};

struct CudaAttentionTask {
  CudaAttentionOperands in;
  CudaArray y;                 // [N, D], of the common type
  float* logsumexp = nullptr;  // [H, N]
  CudaPack queries;
  CudaPack keys;  // the same utterances
  int64_t num_heads = 1;
  int64_t head_size = 1;
  int64_t left = 0;
  int64_t right = 0;
  CudaArray bias;  // for each utterance [H, queries, keys]; without data: none
};

struct CudaAttentionGradients {
  CudaArray dy;  // [N, D]
  CudaAttentionOperands out;
  CudaArray d_bias;        // shape of bias; without data: not requested
  float* delta = nullptr;  // [H, N], workspace
};

// Score matrices of plain attention, [T, T] each: the heads of one utterance, or one head of
// several utterances of the same length. T frames.
struct CudaPlainScores {
  float* scores = nullptr;        // adjacent matrices: unscaled scores, or gradients
  void* probabilities = nullptr;  // matrices at a distance of `stride` elements
  ElementType type = ElementType::kFloat;
  int64_t num_matrices = 1;
  int64_t stride = 0;
  int64_t length = 0;  // T
  int64_t left = 0;
  int64_t right = 0;
  float scale = 1.0f;
  void* d_bias = nullptr;  // same layout as the probabilities, or null: unscaled gradients
};

}  // namespace sotto::kernels
