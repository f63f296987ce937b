// The gradients of the biases of relative positions. That of contents is a sum over keys, each
// times the sum of the gradients of its scores; that of positions is the same over the table of
// positions. Slabs of rows are summed, then the slabs are added in order.
#include <cuda_runtime.h>

#include <algorithm>

#include "sotto/kernels/attention/attention_task.h"
#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_slabs.cuh"

namespace sotto::kernels::detail {

void attention_bias_gradients_cuda(const CudaAttentionTask& task,
                                   const CudaAttentionGradients& gradients, void* stream);

namespace {

// Rows of all heads, and a factor for each row and head.
template <class T>
struct WeightedRows {
  const T* first;
  int64_t stride;
  int64_t num_rows;
  const float* factors;  // [H, rows]
};

// A block sums one slab of the keys (blockIdx.y of 0) or of the table, and a thread one column.
template <class T>
__global__ void weighted_sum_kernel(WeightedRows<T> keys, WeightedRows<T> table, float* slabs,
                                    int64_t num_heads, int head_size, float scale) {
  const WeightedRows<T>& rows = blockIdx.y == 0 ? keys : table;
  const int64_t width = num_heads * head_size;
  const int64_t begin = rows.num_rows * blockIdx.x / gridDim.x;
  const int64_t end = rows.num_rows * (blockIdx.x + 1) / gridDim.x;
  for (int64_t column = threadIdx.x; column < width; column += blockDim.x) {
    const float* factors = rows.factors + column / head_size * rows.num_rows;
    float sum = 0.0f;
#pragma unroll 4
    for (int64_t row = begin; row < end; ++row)
      sum += factors[row] * static_cast<float>(rows.first[row * rows.stride + column]);
    slabs[(blockIdx.x * 2 + blockIdx.y) * width + column] = scale * sum;
  }
}

}  // namespace

void attention_bias_gradients_cuda(const CudaAttentionTask& task,
                                   const CudaAttentionGradients& gradients, void* stream) {
  const CudaRelativeGradients& relative = gradients.relative;
  const int64_t width = task.num_heads * task.head_size;
  with_cuda_type(task.y.type, [&](auto zero) {
    using T = decltype(zero);
    const WeightedRows<T> keys{static_cast<const T*>(task.in.k.first), task.in.k.stride,
                               task.keys.num_frames, relative.key_sums};
    const CudaArray& positions = task.relative.positions;
    const WeightedRows<T> table{static_cast<const T*>(positions.data), positions.width,
                                positions.rows, relative.table_sums};
    weighted_sum_kernel<T><<<dim3(static_cast<unsigned>(relative.num_slabs), 2),
                             static_cast<unsigned>(std::min<int64_t>(width, 1024)), 0,
                             static_cast<cudaStream_t>(stream)>>>(
        keys, table, relative.slabs, task.num_heads, static_cast<int>(task.head_size),
        1.0f / sqrtf(static_cast<float>(task.head_size)));
  });
  check_launch("the biases of relative positions");
  add_slabs_cuda({.partial = relative.slabs, .num_slabs = relative.num_slabs, .width = width},
                 relative.content_bias, relative.position_bias, stream);
}

}  // namespace sotto::kernels::detail
