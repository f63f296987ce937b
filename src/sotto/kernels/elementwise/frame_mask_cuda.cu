#include "sotto/kernels/cuda/cuda_pack.cuh"

namespace sotto::kernels::detail {

namespace {

template <class T>
__global__ void fill_kernel(T* x, int64_t width, const int32_t* rows, int64_t num_rows,
                            const float* value) {
  for_each_row(num_rows, [&](int64_t r) {
    T* row = x + static_cast<int64_t>(rows[r]) * width;
    for_each_column<1>(
        width, [&](int64_t i) { row[i] = static_cast<T>(value == nullptr ? 0.0f : value[i]); });
  });
}

template <class T>
__global__ void partial_kernel(const T* dy, int64_t width, const int32_t* rows, int64_t num_rows,
                               float* partial) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= width) return;
  const int64_t last = num_rows * (blockIdx.y + 1) / gridDim.y;
  float sum = 0.0f;
  for (int64_t r = num_rows * blockIdx.y / gridDim.y; r < last; ++r)
    sum += static_cast<float>(dy[static_cast<int64_t>(rows[r]) * width + column]);
  partial[blockIdx.y * width + column] = sum;
}

__global__ void add_kernel(const float* partial, int64_t num_slabs, int64_t width, float* sum) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= width) return;
  for (int64_t slab = 0; slab < num_slabs; ++slab) sum[column] += partial[slab * width + column];
}

template <class T>
__global__ void zero_kernel(T* x, int64_t width, CudaPack pack, const uint8_t* hidden) {
  UtteranceCursor utterance(pack);
  for_each_row(pack.num_frames, [&](int64_t row) {
    utterance.move_to(row);
    const uint8_t* is_hidden = hidden + utterance.utterance() * width;
    for_each_column<1>(width, [&](int64_t i) {
      if (is_hidden[i] != 0) x[row * width + i] = static_cast<T>(0.0f);
    });
  });
}

}  // namespace

void fill_rows_cuda(const CudaArray& x, const int32_t* rows, int64_t num_rows, const float* value,
                    void* stream) {
  with_cuda_type(x.type, [&](auto zero) {
    using T = decltype(zero);
    const RowGrid grid = row_grid(num_rows, x.width);
    fill_kernel<T><<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
        data_of<T>(x), x.width, rows, num_rows, value);
  });
  check_launch("fill rows");
}

void sum_rows_cuda(const CudaArray& dy, const int32_t* rows, int64_t num_rows,
                   const CudaArray& partial, float* sum, void* stream) {
  constexpr unsigned kThreads = 128;
  const auto blocks = static_cast<unsigned>((dy.width + kThreads - 1) / kThreads);
  auto* on_stream = static_cast<cudaStream_t>(stream);
  with_cuda_type(dy.type, [&](auto zero) {
    using T = decltype(zero);
    partial_kernel<T>
        <<<dim3(blocks, static_cast<unsigned>(partial.rows)), kThreads, 0, on_stream>>>(
            data_of<const T>(dy), dy.width, rows, num_rows, data_of<float>(partial));
  });
  add_kernel<<<blocks, kThreads, 0, on_stream>>>(data_of<const float>(partial), partial.rows,
                                                 dy.width, sum);
  check_launch("sum of rows");
}

void zero_columns_cuda(const CudaArray& x, const CudaPack& pack, const uint8_t* hidden,
                       void* stream) {
  with_cuda_type(x.type, [&](auto zero) {
    using T = decltype(zero);
    const RowGrid grid = row_grid(x.rows, x.width);
    zero_kernel<T><<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
        data_of<T>(x), x.width, pack, hidden);
  });
  check_launch("zero columns");
}

}  // namespace sotto::kernels::detail
