// Distribution of rows among threads, in two ways.
//
// Element-wise: a grid of row_grid(). Threads in x share a row, those in y process adjacent rows,
// and a block processes consecutive rows, so that a thread visits utterances in order.
//
// With sums over a row: a grid of team_grid(). All threads with the same y form the row's team;
// values they read stay in registers between passes over the row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nv/target>

#include "sotto/kernels/cuda/cuda_vector.cuh"

namespace sotto::kernels {

inline constexpr int kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffu;

struct RowGrid {
  dim3 blocks;
  dim3 threads;
};

inline RowGrid row_grid(int64_t num_rows, int64_t num_vectors) {
  constexpr int64_t kThreads = 256;
  constexpr int64_t kMaxBlocks = 148 * 32;
  // The number of iterations is rounded up and the threads are distributed evenly over them.
  const int64_t turns = (num_vectors + kThreads - 1) / kThreads;
  const int64_t share = (num_vectors + turns - 1) / turns;
  const int64_t x = (share + kWarp - 1) / kWarp * kWarp;
  const int64_t y = kThreads / x;
  const int64_t blocks = std::clamp<int64_t>((num_rows + y - 1) / y, 1, kMaxBlocks);
  return {dim3(static_cast<unsigned>(blocks)),
          dim3(static_cast<unsigned>(x), static_cast<unsigned>(y))};
}

// Calls body(row) for the rows of this thread in ascending order.
template <class Body>
__device__ void for_each_row(int64_t num_rows, Body body) {
  const int64_t begin = num_rows * blockIdx.x / gridDim.x;
  const int64_t end = num_rows * (blockIdx.x + 1) / gridDim.x;
  for (int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) body(row);
}

// Calls body(column) for the vectors of a row that belong to this thread.
template <int kSize, class Body>
__device__ void for_each_column(int64_t width, Body body) {
  for (int64_t column = int64_t{threadIdx.x} * kSize; column < width;
       column += int64_t{blockDim.x} * kSize) {
    body(column);
  }
}

// All lanes get the same bits: each step adds the same two numbers on both sides.
template <class Number>
__device__ Number warp_sum(Number value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  return value;
}

__device__ inline float warp_largest(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, distance));
  return value;
}

// For non-negative numbers, whose bits have the same order.
__device__ inline float warp_largest_magnitude(float value) {
  NV_IF_ELSE_TARGET(
      NV_PROVIDES_SM_80,
      (return __uint_as_float(__reduce_max_sync(kWholeWarp, __float_as_uint(value)));),
      (return warp_largest(value);))
}

// Reduces the values of all threads of a block with one team by `join`, given that of each warp. A
// team of one warp needs no others, so that a block may have several.
template <class Number, class Join>
__device__ Number join_warps(Number of_warp, Join join) {
  if (blockDim.x == kWarp) return of_warp;
  __shared__ Number of_warps[kWarp];
  __syncthreads();  // the values of an earlier call have been read
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = of_warp;
  __syncthreads();
  Number all = of_warps[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) all = join(all, of_warps[warp]);
  return all;
}

template <class Number>
__device__ Number team_sum(Number value) {
  return join_warps(warp_sum(value), [](Number a, Number b) { return a + b; });
}

__device__ inline float team_largest(float value) {
  return join_warps(warp_largest(value), [](float a, float b) { return fmaxf(a, b); });
}

// Vectors of a row that a thread holds in registers. Four 16-byte loads in flight per thread, and a
// row of 1,024 needs only one warp.
inline constexpr int kHeldVectors = 4;
// Maximum threads of a team; low enough to have registers for the vectors of two rows.
inline constexpr int kMaxRowThreads = 512;

// One row per team, one warp per team if that is enough, and several of those in a block. Rows too
// wide for the registers of a block are read again in each pass.
struct TeamGrid {
  dim3 blocks;
  dim3 threads;
  bool holds_row;
};

inline TeamGrid team_grid(int64_t num_rows, int64_t num_vectors) {
  constexpr int64_t kTeamsABlock = 8;
  constexpr int64_t kMaxWarps = kMaxRowThreads / kWarp;
  const int64_t vectors_per_warp = kWarp * kHeldVectors;
  const int64_t warps = (num_vectors + vectors_per_warp - 1) / vectors_per_warp;
  const int64_t teams = warps == 1 ? kTeamsABlock : 1;
  const auto blocks = static_cast<unsigned>((num_rows + teams - 1) / teams);
  const auto threads = static_cast<unsigned>(kWarp * std::min(warps, kMaxWarps));
  return {.blocks = dim3(blocks),
          .threads = dim3(threads, static_cast<unsigned>(teams)),
          .holds_row = warps <= kMaxWarps};
}

// Calls body with the number of vectors that a thread holds, as a constant: 0 if rows are read
// again.
template <class Body>
void with_held_vectors(const TeamGrid& grid, Body body) {
  if (grid.holds_row) {
    body(std::integral_constant<int, kHeldVectors>{});
  } else {
    body(std::integral_constant<int, 0>{});
  }
}

// Returns the row of this thread's team; may be past the last row.
__device__ inline int64_t team_row() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

// This thread's vectors of a row of its team.
template <class T, int kSize, int kHeld>
class TeamRow {
 public:
  __device__ TeamRow(const T* row, int width) : row_(row), width_(width) {
    if constexpr (kHeld > 0)
      for_each([&](int index, int column) { held_[index] = load<kSize>(row + column); });
  }

  // Calls body(index, column) for each vector; `index` is a constant if the row is held.
  template <class Body>
  __device__ void for_each(Body body) const {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int index = 0; index < kHeld; ++index) {
        const int column =
            (index * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kSize;
        if (column < width_) body(index, column);
      }
    } else {
      for_each_column<kSize>(width_, [&](int64_t column) { body(0, static_cast<int>(column)); });
    }
  }

  __device__ Vector<T, kSize> at(int index, int column) const {
    if constexpr (kHeld > 0) {
      return held_[index];
    } else {
      return load<kSize>(row_ + column);
    }
  }

 private:
  const T* row_;
  int width_;
  Vector<T, kSize> held_[kHeld > 0 ? kHeld : 1];
};

}  // namespace sotto::kernels
