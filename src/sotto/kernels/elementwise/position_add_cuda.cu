#include <cmath>

#include "sotto/kernels/cuda/cuda_pack.cuh"

namespace sotto::kernels::detail {

namespace {

template <class T, int kSize>
__global__ void position_add_kernel(T* x, const T* table, int64_t width, CudaPack pack,
                                    int64_t first) {
  UtteranceCursor utterance(pack);
  for_each_row(pack.num_frames, [&](int64_t row) {
    utterance.move_to(row);
    const int64_t index = first + row - utterance.start();
    for_each_column<kSize>(width, [&](int64_t column) {
      Vector<T, kSize> values = load<kSize>(x + row * width + column);
      const Vector<T, kSize> added = load<kSize>(table + index * width + column);
      for (int i = 0; i < kSize; ++i) values.set(i, values[i] + added[i]);
      store(x + row * width + column, values);
    });
  });
}

// A row of the grid is a position: its gradients are added one utterance after another.
template <class T, int kSize>
__global__ void position_add_backward_kernel(const T* dy, float* grad_table, int64_t width,
                                             CudaPack pack) {
  for_each_row(pack.max_length, [&](int64_t index) {
    for_each_column<kSize>(width, [&](int64_t column) {
      Vector<float, kSize> sums = load<kSize>(grad_table + index * width + column);
      for (int64_t u = 0; u < pack.num_utterances; ++u) {
        const int64_t row = pack.starts[u] + index;
        if (row >= pack.starts[u + 1]) continue;
        const Vector<T, kSize> gradient = load<kSize>(dy + row * width + column);
        for (int i = 0; i < kSize; ++i) sums.values[i] += gradient[i];
      }
      store(grad_table + index * width + column, sums);
    });
  });
}

// Returns the turns per frame of a pair of columns: 10,000^(-column / width) / (2 pi).
__device__ double turns_of(int64_t column, int64_t width) {
  constexpr double kTurn = 6.283185307179586;        // 2 pi
  constexpr double kLogLongest = 9.210340371976184;  // log(10,000)
  return exp(-kLogLongest * static_cast<double>(column) / static_cast<double>(width)) / kTurn;
}

// The frequencies of some columns, as turns per frame. They are double, because positions reach
// tens of thousands; the fractional part of a turn is precise enough for sines in fp32.
template <int kSize>
struct Sinusoids {
  static_assert(kSize % 2 == 0);
  double turns[kSize / 2];

  __device__ Sinusoids(int64_t column, int64_t width) {
    for (int i = 0; i < kSize / 2; ++i) turns[i] = turns_of(column + 2 * i, width);
  }

  __device__ Vector<float, kSize> at(int64_t position) const {
    Vector<float, kSize> values;
    for (int i = 0; i < kSize / 2; ++i) {
      const double turned = static_cast<double>(position) * turns[i];
      const auto half_turns = static_cast<float>(2.0 * (turned - rint(turned)));
      sincospif(half_turns, &values.values[2 * i], &values.values[2 * i + 1]);
    }
    return values;
  }
};

// Outer loop over columns, inner loop over rows: the turns of a column are computed once.
template <class T, int kSize>
__global__ void sinusoid_add_kernel(T* x, int64_t width, CudaPack pack, int64_t first) {
  for_each_column<kSize>(width, [&](int64_t column) {
    const Sinusoids<kSize> sinusoids(column, width);
    UtteranceCursor utterance(pack);
    for_each_row(pack.num_frames, [&](int64_t row) {
      utterance.move_to(row);
      const Vector<float, kSize> added = sinusoids.at(first + row - utterance.start());
      Vector<T, kSize> values = load<kSize>(x + row * width + column);
      for (int i = 0; i < kSize; ++i) values.set(i, values[i] + added[i]);
      store(x + row * width + column, values);
    });
  });
}

template <class T, int kSize>
__global__ void relative_sinusoids_kernel(T* table, int64_t num_rows, int64_t width) {
  for_each_column<kSize>(width, [&](int64_t column) {
    const Sinusoids<kSize> sinusoids(column, width);
    for_each_row(num_rows, [&](int64_t row) {
      const Vector<float, kSize> sines = sinusoids.at(num_rows / 2 - row);
      Vector<T, kSize> values;
      for (int i = 0; i < kSize; ++i) values.set(i, sines[i]);
      store(table + row * width + column, values);
    });
  });
}

}  // namespace

void position_add_cuda(const CudaArray& x, const CudaArray& table, const CudaPack& pack,
                       int64_t first, void* stream) {
  with_cuda_type(x.type, [&](auto zero) {
    with_vector_size(fits_vectors(x.width, {x.data, table.data}), [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(x.rows, (x.width + size - 1) / size);
      position_add_kernel<T, size>
          <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
              data_of<T>(x), data_of<T>(table), x.width, pack, first);
    });
  });
  check_launch("position add");
}

void position_add_backward_cuda(const CudaArray& dy, const CudaArray& grad_table,
                                const CudaPack& pack, void* stream) {
  with_cuda_type(dy.type, [&](auto zero) {
    with_vector_size(fits_vectors(dy.width, {dy.data, grad_table.data}), [&](auto size) {
      using T = decltype(zero);
      const RowGrid grid = row_grid(pack.max_length, (dy.width + size - 1) / size);
      position_add_backward_kernel<T, size>
          <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
              data_of<T>(dy), data_of<float>(grad_table), dy.width, pack);
    });
  });
  check_launch("position add backward");
}

void sinusoid_add_cuda(const CudaArray& x, const CudaPack& pack, int64_t first, void* stream) {
  with_cuda_type(x.type, [&](auto zero) {
    using T = decltype(zero);
    auto* on = static_cast<cudaStream_t>(stream);
    if (fits_vectors(x.width, {x.data})) {
      const RowGrid grid = row_grid(x.rows, x.width / kVectorSize);
      sinusoid_add_kernel<T, kVectorSize>
          <<<grid.blocks, grid.threads, 0, on>>>(data_of<T>(x), x.width, pack, first);
    } else {
      const RowGrid grid = row_grid(x.rows, x.width / 2);
      sinusoid_add_kernel<T, 2>
          <<<grid.blocks, grid.threads, 0, on>>>(data_of<T>(x), x.width, pack, first);
    }
  });
  check_launch("sinusoid add");
}

void relative_sinusoids_cuda(const CudaArray& table, void* stream) {
  with_cuda_type(table.type, [&](auto zero) {
    using T = decltype(zero);
    auto* on = static_cast<cudaStream_t>(stream);
    const int size = fits_vectors(table.width, {table.data}) ? kVectorSize : 2;
    const RowGrid grid = row_grid(table.rows, table.width / size);
    if (size == 2) {
      relative_sinusoids_kernel<T, 2>
          <<<grid.blocks, grid.threads, 0, on>>>(data_of<T>(table), table.rows, table.width);
    } else {
      relative_sinusoids_kernel<T, kVectorSize>
          <<<grid.blocks, grid.threads, 0, on>>>(data_of<T>(table), table.rows, table.width);
    }
  });
  check_launch("relative sinusoids");
}

}  // namespace sotto::kernels::detail
