// Attention of single queries on a GPU. A block has one head of one query: its warps take keys in
// turn, each with its own running maximum, and are joined in order. Weights: a block per query,
// whose threads take keys in turn and read them head by head.
#include <cuda_runtime.h>

#include "sotto/kernels/attention/attention_head.cuh"
#include "sotto/kernels/attention/row_attention_task.h"

namespace sotto::kernels::detail {

namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;

// The rows that a query sees.
struct Seen {
  const int32_t* listed;
  int64_t first;
  int64_t count;

  __device__ Seen(const RowAttentionTask& task, int64_t query)
      : listed(task.listed), first(task.ranges[2 * query]), count(task.ranges[2 * query + 1]) {}

  __device__ int64_t row(int64_t index) const {
    return listed == nullptr ? first + index : int64_t{listed[first + index]};
  }
};

template <class T, int kValues>
__global__ void __launch_bounds__(kThreads) forward_kernel(RowAttentionTask task, T* y) {
  const int64_t query = blockIdx.x;
  const int64_t offset = static_cast<int64_t>(blockIdx.y) * task.head_size;
  const int size = static_cast<int>(task.head_size);
  const int64_t width = task.num_heads * task.head_size;
  const Seen seen(task, query);
  const T* keys = static_cast<const T*>(task.kv) + offset;
  using Row = Head<kValues>;
  const Row q = Row::load(static_cast<const T*>(task.q) + query * task.q_stride + offset, size);

  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  float largest = -INFINITY;
  float total = 0.0f;
  Row sums = {};
  for (int64_t i = warp; i < seen.count; i += kWarps) {
    const T* key = keys + seen.row(i) * task.kv_stride;
    const float score = task.scale * q.dot(Row::load(key, size));
    const float next = fmaxf(largest, score);
    const float rescale = expf(largest - next);
    const float weight = expf(score - next);
    sums.scale(rescale);
    sums.add(weight, Row::load(key + width, size));
    total = total * rescale + weight;
    largest = next;
  }

  __shared__ float of_warps[kWarps][kValues * kWarp];
  __shared__ float totals[kWarps];
  __shared__ float largests[kWarps];
  sums.store(of_warps[warp], size);
  if (threadIdx.x % kWarp == 0) {
    totals[warp] = total;
    largests[warp] = largest;
  }
  __syncthreads();
  if (warp != 0) return;
  for (int other = 1; other < kWarps; ++other) largest = fmaxf(largest, largests[other]);
  Row joined = {};
  total = 0.0f;
  for (int other = 0; other < kWarps; ++other) {
    // A warp without keys has a total of 0.
    const float factor = totals[other] > 0.0f ? expf(largests[other] - largest) : 0.0f;
    joined.add(factor, Row::load(of_warps[other], size));
    total += factor * totals[other];
  }
  joined.scale(total > 0.0f ? 1.0f / total : 0.0f);
  joined.store(y + query * width + offset, size);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    weights_kernel(RowAttentionTask task, float factor, float* weights, int64_t weights_stride) {
  const int64_t query = blockIdx.x;
  const Seen seen(task, query);
  const T* q = static_cast<const T*>(task.q) + query * task.q_stride;
  float* to = weights + query * weights_stride;
  for (int64_t head = 0; head < task.num_heads; ++head) {
    const int64_t offset = head * task.head_size;
    const auto score = [&](int64_t i) {
      const T* key = static_cast<const T*>(task.kv) + seen.row(i) * task.kv_stride + offset;
      float sum = 0.0f;
      for (int64_t d = 0; d < task.head_size; ++d)
        sum += static_cast<float>(q[offset + d]) * static_cast<float>(key[d]);
      return task.scale * sum;
    };
    float largest = -INFINITY;
    for (int64_t i = threadIdx.x; i < seen.count; i += kThreads) largest = fmaxf(largest, score(i));
    largest = team_largest(largest);
    float total = 0.0f;
    for (int64_t i = threadIdx.x; i < seen.count; i += kThreads) total += expf(score(i) - largest);
    total = team_sum(total);
    for (int64_t i = threadIdx.x; i < seen.count; i += kThreads)
      to[i] += factor / static_cast<float>(task.num_heads) * expf(score(i) - largest) / total;
  }
}

template <class T, int kValues>
void launch_forward(const RowAttentionTask& task, const CudaArray& y, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>(task.num_queries), static_cast<unsigned>(task.num_heads));
  forward_kernel<T, kValues><<<blocks, kThreads, 0, stream>>>(task, data_of<T>(y));
}

}  // namespace

void row_attention_cuda(const RowAttentionTask& task, const CudaArray& y, void* stream) {
  if (task.num_queries == 0) return;
  auto* on = static_cast<cudaStream_t>(stream);
  with_cuda_type(y.type, [&](auto zero) {
    using T = decltype(zero);
    if (task.head_size <= 2 * kWarp) {
      launch_forward<T, 2>(task, y, on);
    } else if (task.head_size <= 4 * kWarp) {
      launch_forward<T, 4>(task, y, on);
    } else {
      launch_forward<T, 8>(task, y, on);
    }
  });
  check_launch("row attention");
}

void row_attention_weights_cuda(const RowAttentionTask& task, ElementType type, float factor,
                                const CudaArray& weights, void* stream) {
  if (task.num_queries == 0) return;
  with_cuda_type(type, [&](auto zero) {
    using T = decltype(zero);
    weights_kernel<T><<<static_cast<unsigned>(task.num_queries), kThreads, 0,
                        static_cast<cudaStream_t>(stream)>>>(task, factor, data_of<float>(weights),
                                                             weights.width);
  });
  check_launch("row attention weights");
}

}  // namespace sotto::kernels::detail
