#include "sotto/kernels/cuda/cuda_rows.cuh"

namespace sotto::kernels::detail {

namespace {

__device__ float sigmoid(float x) {
  return 1.0f / (1.0f + __expf(-x));
}

// x [rows, 2 width], y [rows, width]
template <class T, int kSize>
__global__ void forward_kernel(const T* x, T* y, int64_t rows, int64_t width) {
  for_each_row(rows, [&](int64_t row) {
    for_each_column<kSize>(width, [&](int64_t column) {
      Vector<T, kSize> a = load<kSize>(x + row * 2 * width + column);
      const Vector<T, kSize> b = load<kSize>(x + (row * 2 + 1) * width + column);
      for (int i = 0; i < kSize; ++i) a.set(i, a[i] * sigmoid(b[i]));
      store(y + row * width + column, a);
    });
  });
}

// dy [rows, width], x and dx [rows, 2 width]
template <class T, int kSize>
__global__ void backward_kernel(const T* dy, const T* x, T* dx, int64_t rows, int64_t width) {
  for_each_row(rows, [&](int64_t row) {
    for_each_column<kSize>(width, [&](int64_t column) {
      const int64_t at_a = row * 2 * width + column;
      const int64_t at_b = at_a + width;
      const Vector<T, kSize> gradient = load<kSize>(dy + row * width + column);
      Vector<T, kSize> a = load<kSize>(x + at_a);
      Vector<T, kSize> b = load<kSize>(x + at_b);
      for (int i = 0; i < kSize; ++i) {
        const float gate = sigmoid(b[i]);
        b.set(i, gradient[i] * a[i] * gate * (1.0f - gate));
        a.set(i, gradient[i] * gate);
      }
      store(dx + at_a, a);
      store(dx + at_b, b);
    });
  });
}

}  // namespace

void glu_forward_cuda(const CudaArray& x, const CudaArray& y, void* stream) {
  with_cuda_type(x.type, [&](auto zero) {
    with_vector_size(fits_vectors(y.width, {x.data, y.data}), [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(y.rows, (y.width + size - 1) / size);
      forward_kernel<T, size><<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
          data_of<T>(x), data_of<T>(y), y.rows, y.width);
    });
  });
  check_launch("glu forward");
}

void glu_backward_cuda(const CudaArray& dy, const CudaArray& x, const CudaArray& dx, void* stream) {
  with_cuda_type(x.type, [&](auto zero) {
    with_vector_size(fits_vectors(dy.width, {dy.data, x.data, dx.data}), [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(dy.rows, (dy.width + size - 1) / size);
      backward_kernel<T, size><<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
          data_of<T>(dy), data_of<T>(x), data_of<T>(dx), dy.rows, dy.width);
    });
  });
  check_launch("glu backward");
}

}  // namespace sotto::kernels::detail
