#include "sotto/kernels/cuda/cuda_pack.cuh"

namespace sotto::kernels::detail {

namespace {

template <class T, int kSize>
__global__ void residual_add_kernel(T* x, const T* residual, int64_t n) {
  for_each_vector<kSize>(n, [&](int64_t at, auto size) {
    Vector<T, size> values = load<size>(x + at);
    const Vector<T, size> added = load<size>(residual + at);
    for (int i = 0; i < size; ++i) values.set(i, values[i] + added[i]);
    store(x + at, values);
  });
}

template <class T, int kSize>
__global__ void residual_add_dropped_kernel(T* x, const T* residual, int64_t width,
                                            CudaDropout dropout) {
  for_each_dropped<kSize>(dropout, width, [&](int64_t at, const DropoutFactors<kSize>& factors) {
    Vector<T, kSize> values = load<kSize>(x + at);
    const Vector<T, kSize> added = load<kSize>(residual + at);
    for (int i = 0; i < kSize; ++i) values.set(i, values[i] * factors.at[i] + added[i]);
    store(x + at, values);
  });
}

}  // namespace

void residual_add_cuda(const CudaArray& x, const CudaArray& residual, void* stream) {
  const int64_t n = x.num_elements();
  with_cuda_type(x.type, [&](auto zero) {
    with_vector_size(fits_vectors(kVectorSize, {x.data, residual.data}), [&](auto size) {
      using T = decltype(zero);
      const LaunchShape shape = launch_shape(n / size + 1);
      residual_add_kernel<T, size>
          <<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(
              data_of<T>(x), data_of<T>(residual), n);
    });
  });
  check_launch("residual add");
}

void residual_add_dropped_cuda(const CudaArray& x, const CudaArray& residual,
                               const CudaDropout& dropout, void* stream) {
  with_cuda_type(x.type, [&](auto zero) {
    with_vector_size(fits_vectors(x.width, {x.data, residual.data}), [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(x.rows, (x.width + size - 1) / size);
      residual_add_dropped_kernel<T, size>
          <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
              data_of<T>(x), data_of<T>(residual), x.width, dropout);
    });
  });
  check_launch("residual add with dropout");
}

}  // namespace sotto::kernels::detail
