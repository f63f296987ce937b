#include <cmath>

#include "sotto/kernels/cuda/cuda_rows.cuh"

namespace sotto::kernels::detail {

namespace {

template <class T, int kSize, int kHeld>
__global__ void __launch_bounds__(kMaxRowThreads)
    forward_kernel(const T* x, T* y, int64_t rows, int width) {
  const int64_t row = team_row();
  if (row >= rows) return;  // a whole warp, which is the team of the row
  const TeamRow<T, kSize, kHeld> values(x + row * width, width);
  float largest = -INFINITY;
  values.for_each([&](int place, int column) {
    const Vector<T, kSize> part = values.at(place, column);
    for (int i = 0; i < kSize; ++i) largest = fmaxf(largest, part[i]);
  });
  largest = team_largest(largest);
  float sum = 0.0f;
  values.for_each([&](int place, int column) {
    const Vector<T, kSize> part = values.at(place, column);
    for (int i = 0; i < kSize; ++i) sum += __expf(part[i] - largest);
  });
  const float scale = 1.0f / team_sum(sum);
  values.for_each([&](int place, int column) {
    Vector<T, kSize> part = values.at(place, column);
    for (int i = 0; i < kSize; ++i) part.set(i, __expf(part[i] - largest) * scale);
    store(y + row * width + column, part);
  });
}

template <class T, int kSize, int kHeld>
__global__ void __launch_bounds__(kMaxRowThreads)
    backward_kernel(const T* dy, const T* y, T* dx, int64_t rows, int width) {
  const int64_t row = team_row();
  if (row >= rows) return;
  const TeamRow<T, kSize, kHeld> gradients(dy + row * width, width);
  const TeamRow<T, kSize, kHeld> probabilities(y + row * width, width);
  float sum = 0.0f;
  gradients.for_each([&](int place, int column) {
    const Vector<T, kSize> gradient = gradients.at(place, column);
    const Vector<T, kSize> probability = probabilities.at(place, column);
    for (int i = 0; i < kSize; ++i) sum += probability[i] * gradient[i];
  });
  const float mean = team_sum(sum);
  gradients.for_each([&](int place, int column) {
    Vector<T, kSize> result = gradients.at(place, column);
    const Vector<T, kSize> probability = probabilities.at(place, column);
    for (int i = 0; i < kSize; ++i) result.set(i, probability[i] * (result[i] - mean));
    store(dx + row * width + column, result);
  });
}

// Calls body(zero, size, held, grid): with a value of the type, the elements per access, the
// vectors that a thread holds, and the launch shape.
template <class Body>
void with_choices(const CudaArray& rows, bool fits, Body body) {
  with_cuda_type(rows.type, [&](auto zero) {
    with_vector_size(fits, [&](auto size) {
      const TeamGrid grid = team_grid(rows.rows, (rows.width + size - 1) / size);
      with_held_vectors(grid, [&](auto held) { body(zero, size, held, grid); });
    });
  });
}

}  // namespace

void softmax_forward_cuda(const CudaArray& x, const CudaArray& y, void* stream) {
  const bool fits = fits_vectors(x.width, {x.data, y.data});
  with_choices(x, fits, [&](auto zero, auto size, auto held, const TeamGrid& grid) {
    using T = decltype(zero);
    forward_kernel<T, size, held>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
            data_of<T>(x), data_of<T>(y), x.rows, static_cast<int>(x.width));
  });
  check_launch("softmax forward");
}

void softmax_backward_cuda(const CudaArray& dy, const CudaArray& y, const CudaArray& dx,
                           void* stream) {
  const bool fits = fits_vectors(y.width, {dy.data, y.data, dx.data});
  with_choices(y, fits, [&](auto zero, auto size, auto held, const TeamGrid& grid) {
    using T = decltype(zero);
    backward_kernel<T, size, held>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
            data_of<T>(dy), data_of<T>(y), data_of<T>(dx), y.rows, static_cast<int>(y.width));
  });
  check_launch("softmax backward");
}

}  // namespace sotto::kernels::detail
