// What the kernels of attention with relative positions on tensor cores share. A block processes
// one head of one utterance of T frames, and each warp sixteen queries at a time. Query i and key j
// need the position of distance i - j; for sixteen queries and some keys that is a product with
// sixteen positions more than there are keys, the band, whose row of query i holds the terms of the
// keys in order, starting one column earlier than in the row before. Lanes exchange its numbers to
// read it with that shift.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/cuda/cuda_mma.cuh"

namespace sotto::kernels::detail {

inline constexpr int kTileRows = 64;  // queries or keys of a tile
inline constexpr int kWarpRows = 16;  // of which a warp has these
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// Rows of one head of an utterance. Others than 0 .. num_rows are zero.
template <class T>
struct HeadSource {
  const T* first;
  int64_t stride;
  int num_rows;
  int size;  // of the head
};

// Tensors of a call and its shape. H heads, N frames, P rows of the table of positions.
template <class T>
struct RelativeCall {
  HeadSource<T> q;  // of the whole pack and all heads, like the next ones
  HeadSource<T> k;
  HeadSource<T> v;
  HeadSource<T> positions;
  const float* content_terms;   // [H, N]: the bias of contents times each key
  const float* position_terms;  // [H, P]: the bias of positions times each position
  CudaPack pack;
  int num_heads;
  int head_size;
  int left;
  int right;
  float scale;
};

// One head of one utterance: that of this block.
template <class T>
struct RelativeHeadOfBlock {
  HeadSource<T> q;
  HeadSource<T> k;
  HeadSource<T> v;
  HeadSource<T> positions;      // [2 T - 1], from distance T - 1 down
  const float* content_terms;   // [T]
  const float* position_terms;  // [2 T - 1]
  int64_t start;                // of the utterance in the pack
  int utterance;
  int head;
  int length;  // T

  __device__ explicit RelativeHeadOfBlock(const RelativeCall<T>& call) {
    utterance = static_cast<int>(blockIdx.z);
    head = static_cast<int>(blockIdx.y);
    start = call.pack.starts[utterance];
    length = static_cast<int>(call.pack.starts[utterance + 1] - start);
    const int64_t column = static_cast<int64_t>(head) * call.head_size;
    const int64_t first_position = (call.positions.num_rows + 1) / 2 - length;
    const int size = call.head_size;
    q = {call.q.first + start * call.q.stride + column, call.q.stride, length, size};
    k = {call.k.first + start * call.k.stride + column, call.k.stride, length, size};
    v = {call.v.first + start * call.v.stride + column, call.v.stride, length, size};
    positions = {call.positions.first + first_position * call.positions.stride + column,
                 call.positions.stride, 2 * length - 1, size};
    content_terms = call.content_terms + head * call.pack.num_frames + start;
    position_terms =
        call.position_terms + static_cast<int64_t>(head) * call.positions.num_rows + first_position;
  }

  // Rows of a tensor [N, D] of this head, and the index of a statistic [H, N] of the first frame.
  __device__ HeadSource<T> rows_of(const T* x, const RelativeCall<T>& call) const {
    const int64_t width = static_cast<int64_t>(call.num_heads) * call.head_size;
    return {x + start * width + static_cast<int64_t>(head) * call.head_size, width, length,
            call.head_size};
  }
  __device__ int64_t statistic(const RelativeCall<T>& call) const {
    return head * call.pack.num_frames + start;
  }
};

// Elements from row to row of a tile in shared memory: eight rows are in different banks.
template <int kHead>
inline constexpr int kRowStride = kHead + 8;

template <int kHead, int kChunk, int kThreads, class T>
__device__ void start_rows_by(T* tile, const HeadSource<T>& source, int begin) {
  // A thread copies the same columns of several rows.
  constexpr int kRowThreads = (kHead <= 64 ? 64 : 128) / kChunk;
  constexpr int kRows = kThreads / kRowThreads;
  const int column = static_cast<int>(threadIdx.x) % kRowThreads * kChunk;
  const int first = static_cast<int>(threadIdx.x) / kRowThreads;
  if (kHead % 64 != 0 && column >= kHead) return;
  const unsigned num_rows = column < source.size ? static_cast<unsigned>(source.num_rows) : 0;
  T* to = tile + first * kRowStride<kHead> + column;
  const T* from = source.first + (begin + first) * source.stride + column;
#pragma unroll
  for (int row = 0; row < kTileRows; row += kRows) {
    start_copy<kChunk * sizeof(T)>(to + row * kRowStride<kHead>, from + row * source.stride,
                                   static_cast<unsigned>(begin + first + row) < num_rows);
  }
}

// Starts copies of kTileRows rows from `begin` on to shared memory, with zeros where the source has
// none. Rows of a head that are multiples of 8 elements are copied 16 bytes at a time, others 8.
template <int kHead, int kThreads, class T>
__device__ void start_rows(T* tile, const HeadSource<T>& source, int begin) {
  if (source.size % 8 == 0) {
    start_rows_by<kHead, 8, kThreads>(tile, source, begin);
  } else {
    start_rows_by<kHead, 4, kThreads>(tile, source, begin);
  }
}

// Starts copies of kTileRows numbers, zeros where there are none.
__device__ inline void start_numbers(float* to, const float* from, int begin, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= kTileRows) return;
  start_copy<sizeof(float)>(to + i, from + begin + i,
                            static_cast<unsigned>(begin + i) < static_cast<unsigned>(count));
}

// Sixteen rows as first operands.
template <class T, int kHead>
struct LeftRows {
  LeftTile at[kHead / 16];

  __device__ void load(const T* tile) {
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k) at[k] = load_left(tile + k * 16, kRowStride<kHead>);
  }

  // sums [16, 16] += these rows times sixteen rows of a tile.
  __device__ void multiply(SumTile& first, SumTile& second, const T* tile) const {
#pragma unroll
    for (int k = 0; k < kHead / 16; ++k) {
      const RightTiles b = load_right_transposed(tile + k * 16, kRowStride<kHead>);
      multiply_add<T>(first, at[k], b.at[0], b.at[1]);
      multiply_add<T>(second, at[k], b.at[2], b.at[3]);
    }
  }
};

// Sums of sixteen rows of a head.
template <class T, int kHead>
struct HeadSums {
  SumTile at[kHead / 8];

  // += a [16, 16] times sixteen rows of a tile.
  __device__ void add(const LeftTile& a, const T* tile) {
#pragma unroll
    for (int n = 0; n < kHead / 16; ++n) {
      const RightTiles b = load_right(tile + n * 16, kRowStride<kHead>);
      multiply_add<T>(at[2 * n], a, b.at[0], b.at[1]);
      multiply_add<T>(at[2 * n + 1], a, b.at[2], b.at[3]);
    }
  }

  // Calls body(row of 16, column, value of it, value of the next column).
  template <class Body>
  __device__ void for_each(Body body) const {
    const int row = lane_index() / 4;
    const int column = lane_index() % 4 * 2;
#pragma unroll
    for (int n = 0; n < kHead / 8; ++n) {
      body(row, n * 8 + column, at[n].at[0], at[n].at[1]);
      body(row + 8, n * 8 + column, at[n].at[2], at[n].at[3]);
    }
  }
};

// A choice by a mask of all bits or none: of conditions that differ between lanes the compiler
// makes branches.
__device__ inline uint32_t mask_of(bool condition) {
  return condition ? ~0u : 0;
}
__device__ inline float choose(uint32_t mask, float yes, float no) {
  return __uint_as_float((__float_as_uint(yes) & mask) | (__float_as_uint(no) & ~mask));
}

// Reads bands with their shift. The row of query g, or g + 8, starts 15 - g columns, or 7 - g,
// after the first one: lanes of a row pass their numbers on by up to 7 columns, half of these
// lanes.
class BandShift {
 public:
  __device__ BandShift() {
    const int lane = lane_index();
    const int columns = 7 - lane / 4;
    is_odd_ = mask_of(columns % 2 != 0);
    for (int e = 0; e < 2; ++e) {
      const int lanes = (columns + e) / 2;
      sources_[e] = lane / 4 * 4 + (lane + lanes) % 4;
      is_past_end_[e] = mask_of(lane % 4 < lanes);
    }
  }

  // Adds those of three adjacent tiles of the band that belong to a tile of scores.
  __device__ void add(SumTile& scores, const SumTile& first, const SumTile& second,
                      const SumTile& third) const {
    add_row(scores.at, second.at, third.at);
    add_row(scores.at + 2, first.at + 2, second.at + 2);
  }

 private:
  __device__ void add_row(float* scores, const float* now, const float* next) const {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float of_now = choose(is_odd_, now[1 - e], now[e]);
      const float of_next = choose(is_odd_, next[1 - e], next[e]);
      scores[e] += __shfl_sync(0xffffffffu, choose(is_past_end_[e], of_next, of_now), sources_[e]);
    }
  }

  uint32_t is_odd_;
  // For each of a lane's two columns: the lane that has the number, and whether this lane passes on
  // numbers of the next tile.
  uint32_t is_past_end_[2];
  int sources_[2];
};

// Sets the columns of a tile of sums to one number each.
__device__ inline void set_columns(SumTile& sums, const float* numbers) {
  const float2 both = *reinterpret_cast<const float2*>(numbers + lane_index() % 4 * 2);
  sums.at[0] = sums.at[2] = both.x;
  sums.at[1] = sums.at[3] = both.y;
}

__device__ inline float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

// Tiles of 64 that contain rows begin .. end.
struct TileRange {
  int begin;
  int end;

  __device__ static TileRange of(int begin_row, int end_row, int length) {
    const int first = begin_row > 0 ? begin_row : 0;
    const int last = end_row < length ? end_row : length;
    return {first / kTileRows, (last + kTileRows - 1) / kTileRows};
  }
};

// Visibility of the keys from `first_key` on for the two queries of a lane.
class VisibleKeys {
 public:
  // `query`: the first of them; the other one is 8 queries later.
  template <class T>
  __device__ VisibleKeys(const RelativeCall<T>& call, int length, int query, int first_key) {
    for (int half = 0; half < 2; ++half) {
      const int at = query + half * 8;
      const int last = at + call.right < length ? at + call.right : length - 1;
      // Without keys they begin where no tile ends.
      first_[half] = at < length ? (at > call.left ? at - call.left : 0) - first_key : kTileRows;
      reach_[half] = at < length ? static_cast<unsigned>(last - first_key - first_[half]) : 0;
    }
  }

  // One comparison: keys before the first one are large as unsigned numbers.
  __device__ bool has(int half, int key) const {
    return static_cast<unsigned>(key - first_[half]) <= reach_[half];
  }

 private:
  int first_[2];
  unsigned reach_[2];
};

// The statistics of the two rows of queries that a lane has numbers of: the logsumexp, and the
// product of y and dy. Queries past the end, which see no keys, have those of the last one.
struct QueryStatistics {
  float logsumexp[2];
  float delta[2];

  __device__ static QueryStatistics load(const float* logsumexp, const float* delta,
                                         int first_query, int length) {
    QueryStatistics result;
    for (int half = 0; half < 2; ++half) {
      const int query = min(first_query + lane_index() / 4 + half * 8, length - 1);
      result.logsumexp[half] = logsumexp[query];
      result.delta[half] = delta[query];
    }
    return result;
  }
};

}  // namespace sotto::kernels::detail
