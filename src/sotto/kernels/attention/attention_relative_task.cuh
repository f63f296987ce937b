// How the kernels of attention with relative positions on tensor cores are launched: their
// arguments, and the small kernels that run before them.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "sotto/kernels/attention/attention_relative.cuh"
#include "sotto/kernels/attention/attention_task.h"
#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/cuda/cuda_vector.cuh"

namespace sotto::kernels::detail {

// What gradients need in addition to a call.
template <class T>
struct RelativeSaved {
  const T* dy;             // [N, D]
  const float* logsumexp;  // [H, N]
  const float* delta;      // [H, N]
};

// A gradient of all heads: one row per frame.
template <class T>
struct GradientRows {
  T* first;
  int64_t stride;

  __device__ void store(int64_t row, int64_t column, float value, float next) const {
    *reinterpret_cast<uint32_t*>(first + row * stride + column) = packed<T>(value, next);
  }
};

// fp32 sums in memory that gradients are added to, all unscaled.
struct RelativeSums {
  float* queries;    // [N, D]
  float* positions;  // [rows, D]
  float* rows;       // [H, rows], of the gradients of the scores of each position
  int64_t width;
  int64_t num_positions;  // rows: those of the table, or of each utterance, 2 T - 1
  bool is_by_utterance;

  // Returns the row of the first position of an utterance.
  template <class T>
  __device__ int64_t first_row(const RelativeHeadOfBlock<T>& head) const {
    return is_by_utterance ? 2 * head.start - head.utterance
                           : (num_positions + 1) / 2 - head.length;
  }
};

inline RelativeSums relative_sums(const CudaAttentionTask& task,
                                  const CudaAttentionGradients& gradients) {
  const CudaRelativeGradients& relative = gradients.relative;
  return {.queries = relative.query_sums,
          .positions = relative.position_sums,
          .rows = relative.row_sums,
          .width = task.num_heads * task.head_size,
          .num_positions = relative.num_position_sums,
          .is_by_utterance = relative.progress != nullptr};
}

// Returns at least the number of tiles of all utterances.
inline int64_t relative_tiles(const CudaAttentionTask& task) {
  return task.keys.num_frames / kTileRows + task.keys.num_utterances;
}

template <class T>
GradientRows<T> gradient_rows(const CudaHeadRows& rows) {
  return {static_cast<T*>(rows.first), rows.stride};
}

template <class T>
RelativeCall<T> relative_call(const CudaAttentionTask& task) {
  const auto source = [&](const CudaHeadRows& rows, int64_t num_rows) {
    return HeadSource<T>{static_cast<const T*>(rows.first), rows.stride, static_cast<int>(num_rows),
                         static_cast<int>(task.head_size)};
  };
  const CudaRelative& relative = task.relative;
  const int64_t frames = task.queries.num_frames;
  return {.q = source(task.in.q, frames),
          .k = source(task.in.k, frames),
          .v = source(task.in.v, frames),
          .positions =
              source({relative.positions.data, relative.positions.width}, relative.positions.rows),
          .content_terms = relative.content_terms,
          .position_terms = relative.position_terms,
          .pack = task.queries,
          .num_heads = static_cast<int>(task.num_heads),
          .head_size = static_cast<int>(task.head_size),
          .left = static_cast<int>(task.left),
          .right = static_cast<int>(task.right),
          .scale = 1.0f / sqrtf(static_cast<float>(task.head_size))};
}

template <class T>
RelativeSaved<T> relative_saved(const CudaAttentionTask& task,
                                const CudaAttentionGradients& gradients) {
  return {static_cast<const T*>(gradients.dy.data), task.logsumexp, gradients.delta};
}

// Returns a grid with a block for each tile of up to `num_rows` rows of each head and utterance;
// blocks past the end of a shorter one have nothing to do.
inline dim3 tile_grid(const CudaAttentionTask& task, int64_t num_rows) {
  return dim3(static_cast<unsigned>((num_rows + kTileRows - 1) / kTileRows),
              static_cast<unsigned>(task.num_heads),
              static_cast<unsigned>(task.queries.num_utterances));
}

struct TileLaunch {
  dim3 grid;
  unsigned num_threads;
  int shared_bytes;  // of a block
};

// Launches a kernel for relative positions.
template <class... Arguments>
void launch_tiles(void (*kernel)(Arguments...), const TileLaunch& launch, cudaStream_t stream,
                  std::type_identity_t<Arguments>... arguments) {
  // More than 48 KiB of shared memory have to be asked for.
  const cudaError_t code =
      cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                           cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes);
  if (code != cudaSuccess)
    throw std::runtime_error(std::string("shared memory of a kernel: ") + cudaGetErrorString(code));
  kernel<<<launch.grid, launch.num_threads, static_cast<size_t>(launch.shared_bytes), stream>>>(
      arguments...);
}

// Calls body with a value of the type and the number of columns of a tile, as a constant.
template <class Body>
void with_relative_kernel(const CudaAttentionTask& task, Body body) {
  const auto with_type = [&](auto zero) {
    if (task.head_size <= 64) return body(zero, std::integral_constant<int, 64>());
    if (task.head_size <= 96) return body(zero, std::integral_constant<int, 96>());
    return body(zero, std::integral_constant<int, 128>());
  };
  if (task.y.type == ElementType::kHalf) return with_type(__half{});
  with_type(__nv_bfloat16{});
}

// to [H, rows] = the product of two vectors of each head and row, computed by eight lanes with four
// numbers at a time. Without a stride `b` is the same for all rows.
template <class T, class U>
__global__ void head_products_kernel(GradientRows<const T> a, GradientRows<const U> b, float* to,
                                     int64_t num_rows, int num_heads, int head_size) {
  constexpr int kTeam = 8;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kTeam;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x / kTeam;
  const int64_t num_tasks = num_rows * num_heads;
  // All lanes of a warp take part in the exchange of sums.
  for (int64_t task = first; task < (num_tasks + 3) / 4 * 4; task += step) {
    const int64_t row = task / num_heads;
    const int64_t head = task % num_heads;
    float sum = 0.0f;
    for (int i = static_cast<int>(threadIdx.x % kTeam) * 4; task < num_tasks && i < head_size;
         i += kTeam * 4) {
      const auto x = load<4>(a.first + row * a.stride + head * head_size + i);
      // Biases may be anywhere in a tensor: fp32 numbers are read one by one.
      constexpr int kNumbers = sizeof(U) == 2 ? 4 : 1;
      for (int k = 0; k < 4; k += kNumbers) {
        const auto y = load<kNumbers>(b.first + row * b.stride + head * head_size + i + k);
        for (int n = 0; n < kNumbers; ++n) sum += x[k + n] * y[n];
      }
    }
    for (int distance = kTeam / 2; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(kWholeWarp, sum, distance);
    if (task < num_tasks && threadIdx.x % kTeam == 0) to[head * num_rows + row] = sum;
  }
}

template <class T, class U>
void start_head_products(const CudaAttentionTask& task, const GradientRows<const T>& a,
                         const GradientRows<const U>& b, float* to, int64_t num_rows,
                         cudaStream_t stream) {
  const LaunchShape shape = launch_shape(num_rows * task.num_heads * 8);
  head_products_kernel<T, U><<<shape.blocks, shape.threads, 0, stream>>>(
      a, b, to, num_rows, static_cast<int>(task.num_heads), static_cast<int>(task.head_size));
}

// Computes the terms of scores that do not depend on the query: keys times the bias of contents,
// and positions times their bias.
template <class T>
void start_terms(const CudaAttentionTask& task, cudaStream_t stream) {
  const CudaRelative& relative = task.relative;
  start_head_products<T, float>(task, {static_cast<const T*>(task.in.k.first), task.in.k.stride},
                                {relative.content_bias, 0}, relative.content_terms,
                                task.keys.num_frames, stream);
  start_head_products<T, float>(
      task, {static_cast<const T*>(relative.positions.data), relative.positions.width},
      {relative.position_bias, 0}, relative.position_terms, relative.positions.rows, stream);
}

// Computes the product of y and dy of each query and head.
template <class T>
void start_delta(const CudaAttentionTask& task, const CudaAttentionGradients& gradients,
                 cudaStream_t stream) {
  const int64_t width = task.num_heads * task.head_size;
  start_head_products<T, T>(task, {static_cast<const T*>(task.y.data), width},
                            {static_cast<const T*>(gradients.dy.data), width}, gradients.delta,
                            task.queries.num_frames, stream);
}

}  // namespace sotto::kernels::detail
