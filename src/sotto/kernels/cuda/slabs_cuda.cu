#include "sotto/kernels/cuda/cuda_slabs.cuh"

namespace sotto::kernels::detail {

namespace {

constexpr int kWarps = 32;

// A block processes 32 columns of one gradient. Each warp sums its share of the slabs, so that many
// loads are in flight at once; then the shares are added in order.
__global__ void add_slabs_kernel(CudaSlabs slabs, float* first, float* second) {
  __shared__ float shares[kWarps][32];
  float* gradient = blockIdx.y == 0 ? first : second;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const int64_t slab_size = gridDim.y * slabs.width;
  const int64_t begin = slabs.num_slabs * threadIdx.y / kWarps;
  const int64_t end = slabs.num_slabs * (threadIdx.y + 1) / kWarps;
  float share = 0.0f;
  if (column < slabs.width) {
    const float* from = slabs.partial + blockIdx.y * slabs.width + column;
#pragma unroll 8
    for (int64_t slab = begin; slab < end; ++slab) share += from[slab * slab_size];
  }
  shares[threadIdx.y][threadIdx.x] = share;
  __syncthreads();
  if (threadIdx.y > 0 || column >= slabs.width) return;
  float total = 0.0f;
  for (int warp = 0; warp < kWarps; ++warp) total += shares[warp][threadIdx.x];
  gradient[column] += total;
}

}  // namespace

void add_slabs_cuda(const CudaSlabs& slabs, float* first, float* second, void* stream) {
  const dim3 blocks(static_cast<unsigned>((slabs.width + 31) / 32), second == nullptr ? 1 : 2);
  add_slabs_kernel<<<blocks, dim3(32, kWarps), 0, static_cast<cudaStream_t>(stream)>>>(slabs, first,
                                                                                       second);
  check_launch("sum of slabs");
}

}  // namespace sotto::kernels::detail
