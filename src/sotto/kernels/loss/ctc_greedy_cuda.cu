#include <limits>

#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/cuda/cuda_vector.cuh"

namespace sotto::kernels::detail {

namespace {

constexpr int kNone = std::numeric_limits<int>::max();

// A logit and its index in the row.
struct Candidate {
  float logit;
  int index;
};

// Returns the larger one, the first if they are equal. A NaN is never the larger.
__device__ Candidate better(const Candidate& a, const Candidate& b) {
  return b.logit > a.logit || (b.logit == a.logit && b.index < a.index) ? b : a;
}

__device__ Candidate best_of_warp(Candidate best) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    best = better(best, {__shfl_xor_sync(kWholeWarp, best.logit, distance),
                         __shfl_xor_sync(kWholeWarp, best.index, distance)});
  }
  return best;
}

template <class T, int kSize, int kHeld>
__global__ void greedy_kernel(CudaArray logits, int32_t blank, int32_t* best_indices) {
  const int64_t frame = team_row();
  if (frame >= logits.rows) return;
  const auto width = static_cast<int>(logits.width);
  const TeamRow<T, kSize, kHeld> row(static_cast<const T*>(logits.data) + frame * width, width);
  Candidate best = {-std::numeric_limits<float>::infinity(), kNone};
  row.for_each([&](int index, int column) {
    const Vector<T, kSize> x = row.at(index, column);
    for (int i = 0; i < kSize; ++i) best = better(best, {x[i], column + i});
  });
  best = join_warps(best_of_warp(best), better);
  if (threadIdx.x == 0) best_indices[frame] = best.index == kNone ? blank : best.index;
}

}  // namespace

void ctc_greedy_cuda(const CudaArray& logits, int64_t blank, int32_t* best, void* stream) {
  with_cuda_type(logits.type, [&](auto zero) {
    using T = decltype(zero);
    with_vector_size(fits_vectors(logits.width, {logits.data}), [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      const TeamGrid grid = team_grid(logits.rows, logits.width / kSize);
      with_held_vectors(grid, [&](auto held) {
        greedy_kernel<T, kSize, decltype(held)::value>
            <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
                logits, static_cast<int32_t>(blank), best);
      });
    });
  });
  check_launch("ctc_greedy");
}

}  // namespace sotto::kernels::detail
