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

// Relative positions; without data: none. P rows.
struct CudaRelative {
  CudaArray positions;                   // [P, D]
  const float* content_bias = nullptr;   // [D]
  const float* position_bias = nullptr;  // [D]
  // Workspace of the kernels on tensor cores, or null if others are used: each key times the bias
  // of contents [H, M], each position times its bias [H, P].
  float* content_terms = nullptr;
  float* position_terms = nullptr;

  bool is_on_tensor_cores() const { return content_terms != nullptr; }
};

struct CudaRelativeGradients {
  CudaArray positions;             // [P, D]
  float* content_bias = nullptr;   // [D], added to
  float* position_bias = nullptr;  // [D], added to
  // Workspace: sums of the gradients of the scores of each key [H, M] and of each row of the table
  // [H, P], and the products of these with keys and positions, [slabs, 2, D].
  float* key_sums = nullptr;
  float* table_sums = nullptr;
  float* slabs = nullptr;
  int64_t num_slabs = 0;
  // Likewise, on tensor cores: sums of the gradients of queries [N, D], of positions [R, D] and of
  // their scores [H, R]. R is P; if results must be deterministic, it is the sum of 2 T - 1, and
  // blocks note their progress, int32 [H, number of tiles of 64 keys], to add in order.
  float* query_sums = nullptr;
  float* position_sums = nullptr;
  float* row_sums = nullptr;
  int64_t num_position_sums = 0;
  int32_t* progress = nullptr;
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
  CudaRelative relative = {};
};

struct CudaAttentionGradients {
  CudaArray dy;  // [N, D]
  CudaAttentionOperands out;
  CudaRelativeGradients relative = {};
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
};

}  // namespace sotto::kernels
