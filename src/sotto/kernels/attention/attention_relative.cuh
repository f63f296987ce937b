// What the kernels of attention with relative positions on tensor cores share. A block of four
// warps processes one head of one utterance of T frames, and each warp sixteen queries at a time.
// Query i and key j need the position of distance i - j; for sixteen queries and a tile of keys
// that is a product with 80 positions, the band, whose row of query i holds the terms of the keys
// in order, starting one column earlier than in the row before. It is written to shared memory and
// read with that shift.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/cuda/cuda_mma.cuh"

namespace sotto::kernels::detail {

inline constexpr int kTileWarps = 4;
inline constexpr int kTileThreads = 32 * kTileWarps;
inline constexpr int kTileRows = 64;  // queries or keys of a tile
inline constexpr int kWarpRows = 16;  // of which a warp has these
inline constexpr int kBandColumns = 80;
// Elements from row to row of a band, and of the same in 16 bits, which ldmatrix reads.
inline constexpr int kBandStride = kBandColumns;
inline constexpr int kSkewedStride = kBandColumns + 8;
// Blocks that a multiprocessor is to hold, by registers: three of the kernels whose shared memory
// allows it, for heads of up to 64.
template <int kHead>
inline constexpr int kMinBlocks = kHead <= 64 ? 3 : 1;
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

template <int kHead, int kChunk, class T>
__device__ void start_rows_by(T* tile, const HeadSource<T>& source, int begin) {
  constexpr int kChunks = kHead / kChunk;
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kChunks; i += kTileThreads) {
    const int row = i / kChunks;
    const int column = i % kChunks * kChunk;
    T* to = tile + row * kRowStride<kHead> + column;
    const int from = begin + row;
    if (from >= 0 && from < source.num_rows && column < source.size) {
      start_copy<kChunk * sizeof(T)>(to, source.first + from * source.stride + column);
    } else {
      for (int k = 0; k < kChunk; k += 2) *reinterpret_cast<uint32_t*>(to + k) = 0;
    }
  }
}

// Starts copies of kTileRows rows from `begin` on to shared memory, with zeros where the source has
// none. Rows of a head that are multiples of 8 elements are copied 16 bytes at a time, others 8.
template <int kHead, class T>
__device__ void start_rows(T* tile, const HeadSource<T>& source, int begin) {
  if (source.size % 8 == 0) {
    start_rows_by<kHead, 8>(tile, source, begin);
  } else {
    start_rows_by<kHead, 4>(tile, source, begin);
  }
}

// Copies kTileRows numbers, zeros where there are none.
__device__ inline void load_terms(float* to, const float* from, int begin, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < kTileRows) to[i] = begin + i >= 0 && begin + i < count ? from[begin + i] : 0.0f;
}

// A window of 128 rows in shared memory that moves by 64: chunk n of 64 rows takes the place of
// chunk n - 2 or n + 2.
template <class T, int kHead>
struct RowRing {
  T* rows;
  float* terms;  // one for each row, or null

  __device__ static int place(int row) { return row & (2 * kTileRows - 1); }
  __device__ const T* row(int index) const { return rows + place(index) * kRowStride<kHead>; }
  // Starts the copies of a chunk, whose rows are those of the source from `begin` on.
  __device__ void start_chunk(const HeadSource<T>& source, const float* source_terms, int chunk,
                              int begin) const {
    const int to = place(chunk * kTileRows);
    start_rows<kHead>(rows + to * kRowStride<kHead>, source, begin);
    if (terms != nullptr) load_terms(terms + to, source_terms, begin, source.num_rows);
  }
};

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

// The place of a lane's numbers in sixteen rows of sums: number e of tile n.
struct Place {
  int row;
  int column;

  __device__ Place(int n, int e)
      : row(lane_index() / 4 + e / 2 * 8), column(n * 8 + lane_index() % 4 * 2 + e % 2) {}
};

// Writes sums to columns of a warp's band.
__device__ inline void store_band(float* band, int stride, int first_column, const SumTile& sums) {
  const int row = lane_index() / 4;
  float* to = band + row * stride + first_column + lane_index() % 4 * 2;
  *reinterpret_cast<float2*>(to) = make_float2(sums.at[0], sums.at[1]);
  *reinterpret_cast<float2*>(to + 8 * stride) = make_float2(sums.at[2], sums.at[3]);
}

// Computes the band of a warp's queries from the ring of positions, beginning at a row of it.
template <class T, int kHead>
__device__ void compute_band(float* band, const LeftRows<T, kHead>& q,
                             const RowRing<T, kHead>& positions, int first_row) {
#pragma unroll
  for (int pair = 0; pair < kBandColumns / 16; ++pair) {
    SumTile sums[2];
    q.multiply(sums[0], sums[1], positions.row(first_row + pair * 16));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int place = positions.place(first_row + pair * 16) + half * 8 + lane_index() % 4 * 2;
      const float term = positions.terms[place], next_term = positions.terms[place + 1];
      sums[half].at[0] += term;
      sums[half].at[1] += next_term;
      sums[half].at[2] += term;
      sums[half].at[3] += next_term;
      store_band(band, kBandStride, pair * 16 + half * 8, sums[half]);
    }
  }
  __syncwarp();
}

// Returns the column of the band for a place in a tile of keys.
__device__ inline int band_column(const Place& place) {
  return kWarpRows - 1 - place.row + place.column;
}

// The products of a warp's sixteen rows with the rows of a tile.
template <class T, int kHead>
__device__ void multiply_rows(SumTile (&products)[8], const LeftRows<T, kHead>& rows,
                              const T* tile) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair)
    rows.multiply(products[2 * pair], products[2 * pair + 1], tile + pair * 16 * kRowStride<kHead>);
}

// Adds the other terms to the scores of a warp's queries and a tile of keys, unscaled.
__device__ inline void add_terms(SumTile (&scores)[8], const float* band,
                                 const float* content_terms) {
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const Place place(n, e);
      scores[n].at[e] +=
          band[place.row * kBandStride + band_column(place)] + content_terms[place.column];
    }
  }
  __syncwarp();  // the band has been read
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

// Which keys a query sees.
struct Visibility {
  int length;
  int left;
  int right;

  __device__ bool sees(int query, int key) const {
    return key >= 0 && key < length && key >= query - left && key <= query + right;
  }
  // Whether all queries and keys of two tiles see each other.
  __device__ bool has_all(int first_query, int first_key) const {
    return first_key + kTileRows <= length && first_key >= first_query + kTileRows - 1 - left &&
           first_key + kTileRows - 1 <= first_query + right;
  }
};

// The statistics of the two rows of queries that a lane has numbers of: the logsumexp in powers of
// two, infinite for rows past the end, and the product of y and dy.
struct QueryStatistics {
  float logsumexp[2];
  float delta[2];

  __device__ static QueryStatistics load(const float* logsumexp, const float* delta,
                                         int first_query, int length) {
    QueryStatistics result;
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + lane_index() / 4 + half * 8;
      const bool is_there = query < length;
      result.logsumexp[half] = is_there ? logsumexp[query] * kLog2E : INFINITY;
      result.delta[half] = is_there ? delta[query] : 0.0f;
    }
    return result;
  }
};

// Sums of the rows that a lane's parts of first operands belong to.
struct RowSums {
  float at[2] = {};

  template <class T>
  __device__ void add(const LeftTile& a) {
    at[0] += sum_of_packed<T>(a.at[0]) + sum_of_packed<T>(a.at[2]);
    at[1] += sum_of_packed<T>(a.at[1]) + sum_of_packed<T>(a.at[3]);
  }
  // Completes the sums; then every lane has those of its rows.
  __device__ void join() {
    for (float& sum : at) {
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    }
  }
};

}  // namespace sotto::kernels::detail
