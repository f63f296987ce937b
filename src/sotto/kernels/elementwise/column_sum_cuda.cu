#include "sotto/kernels/cuda/cuda_slabs.cuh"

namespace sotto::kernels::detail {

namespace {

// A block sums the rows of a slab for one strip of columns.
template <class T, int kSize>
__global__ void column_sum_kernel(const T* x, int64_t rows, int64_t width, float* partial) {
  __shared__ alignas(16) float buffer[kStripWarps * kStripColumns<kSize>];
  const int64_t begin = rows * blockIdx.x / gridDim.x;
  const int64_t end = rows * (blockIdx.x + 1) / gridDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kStripColumns<kSize>;
  const int64_t column = first + threadIdx.x * kSize;
  Vector<float, kSize> sums = zero_vector<float, kSize>();
  if (column < width) {
#pragma unroll 4
    for (int64_t row = begin + threadIdx.y; row < end; row += kStripWarps) {
      const Vector<T, kSize> values = load<kSize>(x + row * width + column);
      for (int i = 0; i < kSize; ++i) sums.values[i] += values[i];
    }
  }
  store_sum_over_y(sums, buffer, partial + blockIdx.x * width + first, width - first);
}

}  // namespace

void column_sum_cuda(const CudaArray& x, const CudaArray& partial, const CudaArray& sum,
                     void* stream) {
  const int64_t slabs = partial.rows;
  with_cuda_type(x.type, [&](auto zero) {
    with_vector_size(fits_vectors(x.width, {x.data}), [&](auto size) {
      using T = decltype(zero);
      const int64_t strips = (x.width + kStripColumns<size> - 1) / kStripColumns<size>;
      const dim3 blocks(static_cast<unsigned>(slabs), static_cast<unsigned>(strips));
      column_sum_kernel<T, size>
          <<<blocks, dim3(32, kStripWarps), 0, static_cast<cudaStream_t>(stream)>>>(
              data_of<T>(x), x.rows, x.width, data_of<float>(partial));
    });
  });
  check_launch("column sum");
  add_slabs_cuda({.partial = data_of<float>(partial), .num_slabs = slabs, .width = x.width},
                 data_of<float>(sum), nullptr, stream);
}

}  // namespace sotto::kernels::detail
