// Backward of attention with relative positions on tensor cores: the shared memory of a block, and
// the sums of its eight warps in registers and in memory.
#pragma once

#include <cuda_runtime.h>

#include "sotto/kernels/attention/attention_relative.cuh"

namespace sotto::kernels::detail {

// Elements from row to row of probabilities, and of gradients of scores in columns of the band of
// sixteen queries and 64 keys.
inline constexpr int kWeightStride = kTileRows + 8;
inline constexpr int kSkewedStride = kTileRows + kWarpRows + 8;

// Shared memory of a block.
template <class T, int kHead>
struct BackwardMemory {
  T k[kTileRows * kRowStride<kHead>];
  T v[kTileRows * kRowStride<kHead>];
  T q[kTileRows * kRowStride<kHead>];
  T dy[kTileRows * kRowStride<kHead>];
  T positions[3 * kTileRows * kRowStride<kHead>];
  T probabilities[kTileRows * kWeightStride];  // [queries, keys]
  T gradients[kTileRows * kWeightStride];      // of scores
  T skewed[4][kWarpRows * kSkewedStride];      // the same, in columns of the band
  float content_terms[kTileRows];
  float position_terms[3 * kTileRows];
  float key_sums[4][kTileRows];
};

// Adds to a number in global memory, without its result.
__device__ inline void add_to_memory(float* to, float number) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(number) : "memory");
}

// Adds to two adjacent numbers, at once where the card can do so. A condition instead of a branch
// around the call saves registers.
__device__ inline void add_to_memory_if(bool condition, float* to, float number, float next) {
  NV_IF_ELSE_TARGET(
      NV_PROVIDES_SM_90,
      (asm volatile("{.reg .pred on; setp.ne.u32 on, %3, 0;"
                    "@on red.global.add.v2.f32 [%0], {%1,%2};}" ::"l"(to),
                    "f"(number), "f"(next), "r"(static_cast<uint32_t>(condition)) : "memory");),
      (if (condition) {
        add_to_memory(to, number);
        add_to_memory(to + 1, next);
      }))
}

// Adds sums [16, 8 kTiles] of which `num_columns` are used to rows of a matrix, where it has these.
struct SumRows {
  float* first;  // row 0
  int64_t stride;
  int num_rows;
  int num_columns;

  // `row`: that of the first of the sixteen.
  template <int kTiles>
  __device__ void add(const SumTile (&sums)[kTiles], int row) const {
    const int column = lane_index() % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      const int at = row + lane_index() / 4 + half * 8;
      const int limit = at >= 0 && at < num_rows ? num_columns : 0;
      float* to = first + at * stride + column;
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
        add_to_memory_if(n * 8 + column < limit, to + n * 8, sums[n].at[2 * half],
                         sums[n].at[2 * half + 1]);
    }
  }
};

// sums [16, 8 kTiles] += a [16, 16] times columns of sixteen rows.
template <class T, int kTiles>
__device__ void multiply_columns(SumTile (&sums)[kTiles], const LeftTile& a, const T* rows,
                                 int stride) {
#pragma unroll
  for (int pair = 0; pair < kTiles / 2; ++pair) {
    const RightTiles b = load_right(rows + pair * 16, stride);
    multiply_add<T>(sums[2 * pair], a, b.at[0], b.at[1]);
    multiply_add<T>(sums[2 * pair + 1], a, b.at[2], b.at[3]);
  }
}

// Sums of rows of keys: a warp has one or two groups of sixteen keys, and some of the columns.
template <class T, int kHead>
struct KeySums {
  static constexpr int kGroups = kHead % 64 == 0 ? 2 : 1;
  static constexpr int kColumns = kHead / (2 * kGroups);
  SumTile at[kGroups][kColumns / 8];

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int first_row() { return warp() % (4 / kGroups) * kGroups * kWarpRows; }
  __device__ static int first_column() { return warp() / (4 / kGroups) * kColumns; }

  // += transposed weights [queries, keys] times rows of queries.
  __device__ void add(const T* weights, const T* rows) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      RightTiles b[kColumns / 16];
#pragma unroll
      for (int pair = 0; pair < kColumns / 16; ++pair)
        b[pair] = load_right(rows + k * 16 * kRowStride<kHead> + first_column() + pair * 16,
                             kRowStride<kHead>);
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const LeftTile a = load_left_transposed(
            weights + k * 16 * kWeightStride + first_row() + group * 16, kWeightStride);
#pragma unroll
        for (int pair = 0; pair < kColumns / 16; ++pair) {
          multiply_add<T>(at[group][2 * pair], a, b[pair].at[0], b[pair].at[1]);
          multiply_add<T>(at[group][2 * pair + 1], a, b[pair].at[2], b[pair].at[3]);
        }
      }
    }
  }

  // Calls body(key, column, value of it, value of the next column).
  template <class Body>
  __device__ void for_each(Body body) const {
    const int row = first_row() + lane_index() / 4;
    const int column = first_column() + lane_index() % 4 * 2;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        const float* sums = at[group][n].at;
        body(row + group * 16, column + n * 8, sums[0], sums[1]);
        body(row + group * 16 + 8, column + n * 8, sums[2], sums[3]);
      }
    }
  }
};

// Sums of the 128 positions of a tile of queries and one of keys. A warp has sixteen of the first
// 64 and the sixteen 64 positions later, and half of the columns.
template <class T, int kHead>
struct PositionSums {
  SumTile first[kHead / 16];
  SumTile second[kHead / 16];
  SumTile row_sums[2];  // of gradients of scores; all columns are the same

  // += transposed gradients of scores in columns of bands times rows of queries. Without a function
  // for each warp, every condition would copy the sums.
  __device__ void add(const BackwardMemory<T, kHead>& memory) {
    switch (threadIdx.x / 32 % 4) {
      case 0: return add_of_warp<0>(memory);
      case 1: return add_of_warp<1>(memory);
      case 2: return add_of_warp<2>(memory);
      default: return add_of_warp<3>(memory);
    }
  }

  template <int kWarp>
  __device__ void add_of_warp(const BackwardMemory<T, kHead>& memory) {
    const uint32_t ones = packed<T>(1.0f, 1.0f);
    const int first_column = static_cast<int>(threadIdx.x) / 128 * (kHead / 2);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      // The band of these queries begins with the sixteen positions 3 - k and has five times
      // sixteen.
      const int group = kWarp - (3 - k);
      const T* rows = memory.q + k * 16 * kRowStride<kHead> + first_column;
      if (group >= 0) {
        const LeftTile a = load_left_transposed(memory.skewed[k] + group * 16, kSkewedStride);
        multiply_columns<T>(first, a, rows, kRowStride<kHead>);
        multiply_add<T>(row_sums[0], a, ones, ones);
      }
      if (group <= 0) {
        const LeftTile a = load_left_transposed(memory.skewed[k] + (group + 4) * 16, kSkewedStride);
        multiply_columns<T>(second, a, rows, kRowStride<kHead>);
        multiply_add<T>(row_sums[1], a, ones, ones);
      }
    }
  }

  // The next tile of queries has its second 64 positions where this one has its first.
  __device__ void move() {
#pragma unroll
    for (int n = 0; n < kHead / 16; ++n) {
      second[n] = first[n];
      first[n] = {};
    }
    row_sums[1] = row_sums[0];
    row_sums[0] = {};
  }
};

}  // namespace sotto::kernels::detail
