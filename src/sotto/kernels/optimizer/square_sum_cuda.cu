#include <span>

#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/cuda/cuda_vector.cuh"

namespace sotto::kernels::detail {

namespace {

constexpr int kThreads = 256;

// A block for each slab, kSize values at once; the remainder belongs to the last slab.
template <int kSize, class T>
__global__ void __launch_bounds__(kThreads)
    slab_kernel(const T* values, int64_t size, double* partial) {
  const int64_t num_vectors = size / kSize;
  const int64_t end = num_vectors * (blockIdx.x + 1) / gridDim.x;
  double sum = 0.0;
#pragma unroll 2
  for (int64_t v = num_vectors * blockIdx.x / gridDim.x + threadIdx.x; v < end; v += kThreads) {
    const auto vector = load<kSize>(values + v * kSize);
    for (int i = 0; i < kSize; ++i) {
      const double value = vector[i];
      sum += value * value;
    }
  }
  const int64_t left_over = num_vectors * kSize + threadIdx.x;
  if (blockIdx.x + 1 == gridDim.x && left_over < size) {
    const double value = static_cast<float>(values[left_over]);
    sum += value * value;
  }
  sum = team_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// Runs in one warp.
__global__ void total_kernel(const double* partial, int num_slabs, double* total) {
  double sum = 0.0;
  for (int slab = static_cast<int>(threadIdx.x); slab < num_slabs; slab += kWarp)
    sum += partial[slab];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) *total += sum;
}

}  // namespace

void square_sum_cuda(const CudaArray& values, std::span<double> partial, double* total,
                     void* stream) {
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  const auto num_slabs = static_cast<unsigned>(partial.size());
  with_cuda_type(values.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWide = 16 / sizeof(T);
    auto* const kernel =
        fits_vectors(kVectorSize, {values.data}) ? slab_kernel<kWide, T> : slab_kernel<1, T>;
    kernel<<<num_slabs, kThreads, 0, cuda_stream>>>(data_of<const T>(values), values.num_elements(),
                                                    partial.data());
  });
  total_kernel<<<1, kWarp, 0, cuda_stream>>>(partial.data(), static_cast<int>(num_slabs), total);
  check_launch("square_sum");
}

}  // namespace sotto::kernels::detail
