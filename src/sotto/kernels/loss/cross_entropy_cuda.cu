// One block processes a row of the logits: one pass computes the maximum and the sum of
// exponentials together, and a second one, from a cache, the gradient.

#include <algorithm>
#include <cmath>

#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/loss/cross_entropy_task.h"
#include "sotto/kernels/loss/row_softmax.cuh"

namespace sotto::kernels::detail {

namespace {

template <class T>
__global__ void __launch_bounds__(kMaxLogitsThreads) rows_kernel(T* logits, CrossEntropyTask task) {
  const CrossEntropyRow of = task.rows[blockIdx.x];
  const auto width = static_cast<int>(task.vocabulary);
  T* row = logits + static_cast<int64_t>(blockIdx.x) * width;
  const float target = static_cast<float>(row[of.target]);
  RowSums sums;
  for_each_part(row, width, [&](int column, auto size) { sums.add(load<size>(row + column)); });
  sums.join_team();

  const auto smoothing = static_cast<float>(task.smoothing);
  if (threadIdx.x == 0) {
    float loss = logf(sums.total) - (1.0f - smoothing) * (target - sums.largest);
    if (smoothing > 0.0f)
      loss -= smoothing * (sums.logits / static_cast<float>(width) - sums.largest);
    task.losses[of.index] = loss;
  }
  if (!task.with_gradient) return;

  __syncthreads();  // the target's logit has been read

  // weight * (probability - target)
  const float scale = of.weight / sums.total;
  const float even = of.weight * smoothing / static_cast<float>(width);
  const float own = of.weight * (1.0f - smoothing);
  for_each_part(row, width, [&](int column, auto size) {
    constexpr int kSize = decltype(size)::value;
    Vector<T, kSize> x = load<kSize>(row + column);
    for (int i = 0; i < kSize; ++i) {
      const float probability = __expf(x[i] - sums.largest) * scale - even;
      x.set(i, column + i == of.target ? probability - own : probability);
    }
    store(row + column, x);
  });
}

// Gathers the rows of x to [R, D].
template <class T, int kSize>
__global__ void gather_kernel(const T* x, const CrossEntropyRow* rows, T* to, int64_t num_rows,
                              int64_t width) {
  for_each_row(num_rows, [&](int64_t row) {
    const T* from = x + rows[row].index * width;
    for_each_column<kSize>(width, [&](int64_t column) {
      store(to + row * width + column, load<kSize>(from + column));
    });
  });
}

// Scatters to the rows of dx.
template <class T, int kSize>
__global__ void scatter_kernel(const T* from, const CrossEntropyRow* rows, T* dx, int64_t num_rows,
                               int64_t width) {
  for_each_row(num_rows, [&](int64_t row) {
    T* to = dx + rows[row].index * width;
    for_each_column<kSize>(width, [&](int64_t column) {
      store(to + column, load<kSize>(from + row * width + column));
    });
  });
}

constexpr int kSumThreads = 256;

// A block processes an utterance; the order of its additions depends only on the length.
__global__ void sum_kernel(const float* row_losses, CudaPack pack, float* loss) {
  const int32_t end = pack.starts[blockIdx.x + 1];
  double sum = 0.0;
  for (int64_t row = pack.starts[blockIdx.x] + static_cast<int64_t>(threadIdx.x); row < end;
       row += blockDim.x) {
    sum += row_losses[row];
  }
  sum = team_sum(sum);
  if (threadIdx.x == 0) loss[blockIdx.x] = static_cast<float>(sum);
}

}  // namespace

void cross_entropy_gather_cuda(const CudaArray& x, const CrossEntropyRow* rows, const CudaArray& to,
                               void* stream) {
  with_cuda_type(x.type, [&](auto zero) {
    with_vector_size(fits_vectors(x.width, {x.data, to.data}), [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(to.rows, (x.width + size - 1) / size);
      gather_kernel<T, size><<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
          data_of<T>(x), rows, data_of<T>(to), to.rows, x.width);
    });
  });
  check_launch("cross entropy");
}

void cross_entropy_rows_cuda(const CudaArray& logits, const CrossEntropyTask& task, void* stream) {
  with_cuda_type(logits.type, [&](auto zero) {
    using T = decltype(zero);
    rows_kernel<T><<<static_cast<unsigned>(task.num_rows), logits_threads(logits.width), 0,
                     static_cast<cudaStream_t>(stream)>>>(data_of<T>(logits), task);
  });
  check_launch("cross entropy");
}

void cross_entropy_scatter_cuda(const CudaArray& from, const CrossEntropyRow* rows,
                                const CudaArray& dx, void* stream) {
  with_cuda_type(dx.type, [&](auto zero) {
    with_vector_size(fits_vectors(dx.width, {from.data, dx.data}), [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(from.rows, (dx.width + size - 1) / size);
      scatter_kernel<T, size><<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
          data_of<T>(from), rows, data_of<T>(dx), from.rows, dx.width);
    });
  });
  check_launch("cross entropy");
}

void cross_entropy_sum_cuda(const float* row_losses, const CudaPack& pack, float* loss,
                            void* stream) {
  sum_kernel<<<static_cast<unsigned>(pack.num_utterances), kSumThreads, 0,
               static_cast<cudaStream_t>(stream)>>>(row_losses, pack, loss);
  check_launch("cross entropy");
}

}  // namespace sotto::kernels::detail
