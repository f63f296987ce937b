#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/cuda/cuda_slabs.cuh"
#include "sotto/kernels/norm/weight_norm_arrays.h"

namespace sotto::kernels::detail {

namespace {

constexpr int64_t kThreads = 256;
constexpr int kTotalWarps = 8;

// Threads in x share the taps of a row. A row may have only a few vectors: threads in y process the
// next rows, which are adjacent in memory.
dim3 tap_threads(int64_t num_vectors) {
  const int64_t x = std::min(num_vectors, kThreads);
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(kThreads / x));
}

// A block sums a b over the rows of a slab, for as many taps as it has threads in x.
template <class A, class B, int kSize>
__global__ void product_kernel(const A* a, const B* b, int64_t rows, CudaArray space) {
  __shared__ alignas(16) float buffer[kThreads * kSize];
  const int64_t taps = space.width;
  const int64_t begin = rows * blockIdx.x / gridDim.x;
  const int64_t end = rows * (blockIdx.x + 1) / gridDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * blockDim.x * kSize;
  const int64_t tap = first + static_cast<int64_t>(threadIdx.x) * kSize;
  Vector<float, kSize> sums = zero_vector<float, kSize>();
  if (tap < taps) {
#pragma unroll 4
    for (int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      const Vector<A, kSize> of_a = load<kSize>(a + row * taps + tap);
      const Vector<B, kSize> of_b = load<kSize>(b + row * taps + tap);
      for (int i = 0; i < kSize; ++i) sums.values[i] += of_a[i] * of_b[i];
    }
  }
  float* to = static_cast<float*>(space.data) + blockIdx.x * taps + first;
  store_sum_over_y(sums, buffer, to, taps - first);
}

// Returns the sum over the slabs for the tap of each thread in x, to the threads with y = 0. A
// block has 32 x 8 threads.
__device__ double slab_total(const float* sums, int64_t num_slabs, int64_t taps, int64_t tap) {
  __shared__ double shares[kTotalWarps][kWarp];
  double share = 0.0;
  if (tap < taps) {
    const int64_t end = num_slabs * (threadIdx.y + 1) / kTotalWarps;
    for (int64_t slab = num_slabs * threadIdx.y / kTotalWarps; slab < end; ++slab)
      share += sums[slab * taps + tap];
  }
  shares[threadIdx.y][threadIdx.x] = share;
  __syncthreads();
  double total = 0.0;
  for (int warp = 0; warp < kTotalWarps; ++warp) total += shares[warp][threadIdx.x];
  return total;
}

struct TapOfThread {
  __device__ explicit TapOfThread(const CudaArray& space)
      : tap(static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x),
        is_first(threadIdx.y == 0 && tap < space.width) {}

  int64_t tap;
  // Whether this thread is the first of those that process this tap.
  bool is_first;
};

__global__ void norm_kernel(CudaArray space, const float* g, float* norms) {
  auto* const sums = static_cast<float*>(space.data);
  const int64_t num_slabs = space.rows - 1;
  const TapOfThread of(space);
  const double norm = sqrt(slab_total(sums, num_slabs, space.width, of.tap));
  if (!of.is_first) return;
  norms[of.tap] = static_cast<float>(norm);
  sums[num_slabs * space.width + of.tap] = static_cast<float>(g[of.tap] / norm);
}

__global__ void factor_kernel(CudaArray space, const float* g, const float* norms, float* grad_g) {
  auto* const sums = static_cast<float*>(space.data);
  const int64_t num_slabs = space.rows - 2;
  const TapOfThread of(space);
  const double total = slab_total(sums, num_slabs, space.width, of.tap);
  if (!of.is_first) return;
  const double norm = norms[of.tap];
  const double along = total / norm;  // dw in the direction of v
  const double scale = g[of.tap] / norm;
  grad_g[of.tap] += static_cast<float>(along);
  float* factors = sums + num_slabs * space.width + of.tap;
  factors[0] = static_cast<float>(scale);
  factors[space.width] = static_cast<float>(scale * along / norm);
}

template <class V, class W, int kSize>
__global__ void scale_kernel(const V* v, const float* factors, W* w, int64_t rows, int64_t taps) {
  for_each_column<kSize>(taps, [&](int64_t tap) {
    const auto factor = load<kSize>(factors + tap);
    for_each_row(rows, [&](int64_t row) {
      const auto from = load<kSize>(v + row * taps + tap);
      Vector<W, kSize> to;
      for (int i = 0; i < kSize; ++i) to.set(i, from[i] * factor[i]);
      store(w + row * taps + tap, to);
    });
  });
}

template <class V, int kSize>
__global__ void gradient_kernel(const float* dw, const V* v, const float* factors, float* grad_v,
                                int64_t rows, int64_t taps) {
  for_each_column<kSize>(taps, [&](int64_t tap) {
    const auto dw_factor = load<kSize>(factors + tap);
    const auto v_factor = load<kSize>(factors + taps + tap);
    for_each_row(rows, [&](int64_t row) {
      const int64_t at = row * taps + tap;
      const auto of_dw = load<kSize>(dw + at);
      const auto of_v = load<kSize>(v + at);
      auto sums = load<kSize>(grad_v + at);
      for (int i = 0; i < kSize; ++i)
        sums.values[i] += of_dw[i] * dw_factor[i] - of_v[i] * v_factor[i];
      store(grad_v + at, sums);
    });
  });
}

// Sums a b [rows, K] over the slabs of `space`.
template <int kSize, class A, class B>
void launch_products(const A* a, const B* b, int64_t rows, int64_t num_slabs,
                     const CudaArray& space, cudaStream_t stream) {
  const int64_t num_vectors = (space.width + kSize - 1) / kSize;
  const dim3 threads = tap_threads(num_vectors);
  const dim3 blocks(static_cast<unsigned>(num_slabs),
                    static_cast<unsigned>((num_vectors + threads.x - 1) / threads.x));
  product_kernel<A, B, kSize><<<blocks, threads, 0, stream>>>(a, b, rows, space);
}

// Returns blocks for all rows, or as many as fill a card several times.
unsigned row_blocks(int64_t rows, const dim3& threads) {
  constexpr int64_t kMaxBlocks = 148 * 16;
  return static_cast<unsigned>(std::clamp<int64_t>(rows / threads.y, 1, kMaxBlocks));
}

unsigned total_blocks(int64_t taps) {
  return static_cast<unsigned>((taps + kWarp - 1) / kWarp);
}

}  // namespace

void weight_norm_forward_cuda(const WeightNormForward& in, void* stream) {
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  const int64_t taps = in.v.width;
  const int64_t num_slabs = in.space.rows - 1;
  with_cuda_type(in.v.type, [&](auto v_zero) {
    using V = decltype(v_zero);
    const bool fits = fits_vectors(taps, {in.v.data, in.w.data, in.space.data});
    with_vector_size(fits, [&](auto size) {
      const V* v = data_of<const V>(in.v);
      launch_products<size>(v, v, in.v.rows, num_slabs, in.space, cuda_stream);
      norm_kernel<<<total_blocks(taps), dim3(kWarp, kTotalWarps), 0, cuda_stream>>>(
          in.space, data_of<const float>(in.g), data_of<float>(in.norm));
      const dim3 threads = tap_threads((taps + size - 1) / size);
      with_cuda_type(in.w.type, [&](auto w_zero) {
        using W = decltype(w_zero);
        scale_kernel<V, W, size><<<row_blocks(in.v.rows, threads), threads, 0, cuda_stream>>>(
            v, data_of<const float>(in.space) + num_slabs * taps, data_of<W>(in.w), in.v.rows,
            taps);
      });
    });
  });
  check_launch("weight norm forward");
}

void weight_norm_backward_cuda(const WeightNormBackward& in, void* stream) {
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  const int64_t taps = in.v.width;
  const int64_t num_slabs = in.space.rows - 2;
  const float* dw = data_of<const float>(in.dw);
  with_cuda_type(in.v.type, [&](auto zero) {
    using V = decltype(zero);
    const bool fits = fits_vectors(taps, {in.dw.data, in.v.data, in.grad_v.data, in.space.data});
    with_vector_size(fits, [&](auto size) {
      const V* v = data_of<const V>(in.v);
      launch_products<size>(dw, v, in.v.rows, num_slabs, in.space, cuda_stream);
      factor_kernel<<<total_blocks(taps), dim3(kWarp, kTotalWarps), 0, cuda_stream>>>(
          in.space, data_of<const float>(in.g), data_of<const float>(in.norm),
          data_of<float>(in.grad_g));
      const dim3 threads = tap_threads((taps + size - 1) / size);
      gradient_kernel<V, size><<<row_blocks(in.v.rows, threads), threads, 0, cuda_stream>>>(
          dw, v, data_of<const float>(in.space) + num_slabs * taps, data_of<float>(in.grad_v),
          in.v.rows, taps);
    });
  });
  check_launch("weight norm backward");
}

}  // namespace sotto::kernels::detail
