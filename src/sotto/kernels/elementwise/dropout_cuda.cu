#include "sotto/kernels/cuda/cuda_pack.cuh"

namespace sotto::kernels::detail {

namespace {

template <class T, int kSize>
__global__ void dropout_kernel(const T* x, T* y, int64_t width, CudaDropout dropout) {
  for_each_dropped<kSize>(dropout, width, [&](int64_t at, const DropoutFactors<kSize>& factors) {
    Vector<T, kSize> values = load<kSize>(x + at);
    for (int i = 0; i < kSize; ++i) values.set(i, values[i] * factors.at[i]);
    store(y + at, values);
  });
}

}  // namespace

void dropout_cuda(const CudaArray& x, const CudaArray& y, const CudaDropout& dropout,
                  void* stream) {
  with_cuda_type(x.type, [&](auto zero) {
    with_vector_size(fits_vectors(x.width, {x.data, y.data}), [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(x.rows, (x.width + size - 1) / size);
      dropout_kernel<T, size><<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
          data_of<T>(x), data_of<T>(y), x.width, dropout);
    });
  });
  check_launch("dropout");
}

}  // namespace sotto::kernels::detail
