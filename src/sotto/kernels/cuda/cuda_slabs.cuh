// Sums over rows: blocks sum the rows of a slab, then the slabs are summed, all in a fixed order.
#pragma once

#include <cstdint>

#include "sotto/kernels/cuda/cuda_vector.cuh"

namespace sotto::kernels {

// Threads with the same x have sums of the same columns: thread x those from x * kSize on. Adds
// them in the order of y and writes to[0 .. count). `buffer` holds kSize floats for each thread of
// a block with several y.
template <int kSize>
__device__ void store_sum_over_y(const Vector<float, kSize>& sums, float* buffer, float* to,
                                 int64_t count) {
  if (blockDim.y == 1) {
    if (threadIdx.x * kSize < count) store(to + threadIdx.x * kSize, sums);
    return;
  }
  const int num_columns = static_cast<int>(blockDim.x) * kSize;
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int num_threads = static_cast<int>(blockDim.x * blockDim.y);
  __syncthreads();  // an earlier call has read the buffer
  store(buffer + thread * kSize, sums);
  __syncthreads();
  for (int column = thread; column < num_columns && column < count; column += num_threads) {
    float total = buffer[column];
    for (int y = 1; y < static_cast<int>(blockDim.y); ++y)
      total += buffer[y * num_columns + column];
    to[column] = total;
  }
}

// Blocks of 32 x 8 threads for sums over the rows of a strip of columns: warps take rows in turn.
inline constexpr int kStripWarps = 8;

template <int kSize>
inline constexpr int kStripColumns = 32 * kSize;

// Partial sums of `num_vectors` gradients, concatenated in each slab.
struct CudaSlabs {
  const float* partial = nullptr;  // [slabs, vectors, width]
  int64_t num_slabs = 0;
  int64_t width = 0;
};

namespace detail {

// Adds the slabs to one gradient [width] or, if `second` is given, to two.
void add_slabs_cuda(const CudaSlabs& slabs, float* first, float* second, void* stream);

}  // namespace detail

}  // namespace sotto::kernels
