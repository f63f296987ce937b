// The steps of plain attention between the products: the softmax of scores, and its gradient. A
// warp processes one query of one matrix.
#include <cuda_runtime.h>

#include "sotto/kernels/attention/attention_task.h"
#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"

namespace sotto::kernels::detail {

namespace {

constexpr int kWarpsABlock = 8;

struct Keys {
  int64_t begin;
  int64_t end;
};

// Returns the keys that a query of an utterance sees.
__device__ Keys keys_of(int64_t query, const CudaPlainScores& task) {
  return {query - task.left > 0 ? query - task.left : 0,
          query + task.right + 1 < task.length ? query + task.right + 1 : task.length};
}

// A row of scores, and the offset of the same row in the probabilities.
struct Row {
  int64_t query;
  int64_t in_scores;
  int64_t in_probabilities;
};

// Calls body(row), with one warp each, for all queries of all matrices.
template <class Body>
__device__ void for_each_row(const CudaPlainScores& task, Body body) {
  const int64_t num_rows = task.num_matrices * task.length;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarpsABlock + threadIdx.x / kWarp;
  for (int64_t row = first; row < num_rows; row += static_cast<int64_t>(gridDim.x) * kWarpsABlock)
    body(Row{row % task.length, row * task.length,
             row / task.length * task.stride + row % task.length * task.length});
}

template <class T>
__global__ void softmax_kernel(CudaPlainScores task) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for_each_row(task, [&](const Row& row) {
    const float* scores = task.scores + row.in_scores;
    T* probabilities = static_cast<T*>(task.probabilities) + row.in_probabilities;
    const Keys keys = keys_of(row.query, task);
    float largest = -INFINITY;
    for (int64_t key = keys.begin + lane; key < keys.end; key += kWarp)
      largest = fmaxf(largest, scores[key]);
    largest = warp_largest(largest);
    float sum = 0.0f;
    for (int64_t key = keys.begin + lane; key < keys.end; key += kWarp)
      sum += __expf(task.scale * (scores[key] - largest));
    const float factor = 1.0f / warp_sum(sum);
    for (int64_t key = lane; key < task.length; key += kWarp) {
      const bool is_seen = key >= keys.begin && key < keys.end;
      const float weight = is_seen ? __expf(task.scale * (scores[key] - largest)) * factor : 0.0f;
      probabilities[key] = static_cast<T>(weight);
    }
  });
}

// Replaces the gradients of probabilities by those of scores, in the type of the probabilities and
// at the beginning of their row.
template <class T>
__global__ void gradient_kernel(CudaPlainScores task) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for_each_row(task, [&](const Row& row) {
    float* gradients = task.scores + row.in_scores;
    const T* probabilities = static_cast<const T*>(task.probabilities) + row.in_probabilities;
    float sum = 0.0f;
    for (int64_t key = lane; key < task.length; key += kWarp)
      sum += gradients[key] * static_cast<float>(probabilities[key]);
    sum = warp_sum(sum);
    // Each iteration of the warp reads before it writes, and never writes beyond what it has read.
    for (int64_t first = 0; first < task.length; first += kWarp) {
      const int64_t key = first + lane;
      const bool is_there = key < task.length;
      const float value =
          is_there ? task.scale * static_cast<float>(probabilities[key]) * (gradients[key] - sum)
                   : 0.0f;
      __syncwarp();
      if (is_there) reinterpret_cast<T*>(gradients)[key] = static_cast<T>(value);
      __syncwarp();
    }
  });
}

LaunchShape shape_for(const CudaPlainScores& task) {
  const LaunchShape shape = launch_shape(task.num_matrices * task.length * kWarp);
  return {.blocks = shape.blocks, .threads = kWarpsABlock * kWarp};
}

}  // namespace

void attention_plain_softmax_cuda(const CudaPlainScores& task, void* stream) {
  const LaunchShape shape = shape_for(task);
  with_cuda_type(task.type, [&](auto zero) {
    softmax_kernel<decltype(zero)>
        <<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(task);
  });
  check_launch("plain attention");
}

void attention_plain_gradient_cuda(const CudaPlainScores& task, void* stream) {
  const LaunchShape shape = shape_for(task);
  with_cuda_type(task.type, [&](auto zero) {
    gradient_kernel<decltype(zero)>
        <<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(task);
  });
  check_launch("the gradient of plain attention");
}

}  // namespace sotto::kernels::detail
