// The last step of backward of attention with relative positions on tensor cores: results from the
// fp32 sums of queries and positions.
#include <cuda_runtime.h>

#include "sotto/kernels/attention/attention_relative_task.cuh"

namespace sotto::kernels::detail {

void attention_relative_sums_cuda(const CudaAttentionTask& task,
                                  const CudaAttentionGradients& gradients, void* stream);

namespace {

// dq [N, D] = scaled sums [N, D], four numbers at a time.
template <class T>
__global__ void finish_queries_kernel(const float* sums, GradientRows<T> dq, int64_t num_rows,
                                      int64_t width, float scale) {
  const int64_t vectors = width / 4;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < num_rows * vectors; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const auto numbers = load<4>(sums + i * 4);
    const int64_t row = i / vectors;
    const int64_t column = (i - row * vectors) * 4;
    dq.store(row, column, scale * numbers[0], scale * numbers[1]);
    dq.store(row, column + 2, scale * numbers[2], scale * numbers[3]);
  }
}

// A block has one row of the table of positions. Sums of several utterances are added in order.
template <class T>
__global__ void finish_positions_kernel(RelativeSums in, CudaPack pack, GradientRows<T> d_positions,
                                        float* table_sums, const float* bias, int head_size,
                                        float scale) {
  const int64_t row = blockIdx.x;
  const auto add = [&](auto value_of) {
    if (!in.is_by_utterance) return value_of(row);
    float sum = 0.0f;
    for (int64_t u = 0; u < pack.num_utterances; ++u) {
      const int64_t length = pack.starts[u + 1] - pack.starts[u];
      const int64_t position = row - ((static_cast<int64_t>(gridDim.x) + 1) / 2 - length);
      if (position >= 0 && position < 2 * length - 1)
        sum += value_of(2 * int64_t{pack.starts[u]} - u + position);
    }
    return sum;
  };
  __shared__ float sums[256];
  const int num_heads = static_cast<int>(in.width / head_size);
  for (int first = 0; first < num_heads; first += blockDim.x) {
    const int head = first + static_cast<int>(threadIdx.x);
    if (head < num_heads) {
      sums[threadIdx.x] =
          add([&](int64_t from) { return in.rows[head * in.num_positions + from]; });
      table_sums[head * gridDim.x + row] = sums[threadIdx.x];
    }
    __syncthreads();
    const int64_t end = min(in.width, static_cast<int64_t>(first + 256) * head_size);
    for (int64_t i = int64_t{first} * head_size + threadIdx.x; i < end; i += blockDim.x) {
      const float value = add([&](int64_t from) { return in.positions[from * in.width + i]; });
      d_positions.first[row * d_positions.stride + i] =
          static_cast<T>(scale * (value + sums[i / head_size - first] * bias[i]));
    }
    __syncthreads();
  }
}

}  // namespace

void attention_relative_sums_cuda(const CudaAttentionTask& task,
                                  const CudaAttentionGradients& gradients, void* stream) {
  const CudaArray& d_positions = gradients.relative.positions;
  const RelativeSums sums = relative_sums(task, gradients);
  const float scale = 1.0f / sqrtf(static_cast<float>(task.head_size));
  auto* on = static_cast<cudaStream_t>(stream);
  with_cuda_type(task.y.type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, float>) {
      const int64_t rows = task.queries.num_frames;
      const LaunchShape shape = launch_shape(rows * sums.width / 4);
      finish_queries_kernel<T><<<shape.blocks, shape.threads, 0, on>>>(
          sums.queries, gradient_rows<T>(gradients.out.q), rows, sums.width, scale);
      finish_positions_kernel<T><<<static_cast<unsigned>(d_positions.rows), 256, 0, on>>>(
          sums, task.queries, {static_cast<T*>(d_positions.data), sums.width},
          gradients.relative.table_sums, task.relative.position_bias,
          static_cast<int>(task.head_size), scale);
    }
  });
  check_launch("the gradients of queries and positions");
}

}  // namespace sotto::kernels::detail
