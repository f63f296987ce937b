// Tiles of attention: pieces of q, k, v and of the scores as fp32 in small buffers, operands of
// tile_product.h. Internal to the CPU versions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sotto/kernels/attention/attention_cpu.h"
#include "sotto/kernels/simd/simd.h"
#include "sotto/kernels/simd/tile_product.h"

namespace sotto::kernels::detail {

// Frames per tile. The side that stays fixed while tiles of the other are processed is wide, so
// that the other is loaded less often.
inline constexpr int64_t kTile = 64;
inline constexpr int64_t kWideTile = 128;

// Calls body(tile) for tiles of kFrames; the last one may be shorter.
template <int64_t kFrames, class Body>
void for_each_tile(const Span& frames, Body body) {
  for (int64_t first = frames.begin; first < frames.end; first += kFrames) {
    body(Span{first, std::min(first + kFrames, frames.end)});
  }
}

// Returns the frames of all tiles of an utterance that overlap the span.
template <int64_t kFrames>
Span whole_tiles(const Span& frames, int64_t length) {
  return {frames.begin / kFrames * kFrames,
          std::min((frames.end + kFrames - 1) / kFrames * kFrames, length)};
}

// Rounds up to whole blocks of sixteen, which the rows of a tile consist of.
inline int64_t padded(int64_t count) {
  return (count + simd::kLanes - 1) / simd::kLanes * simd::kLanes;
}

// kFrames of one head, [frames, head size], or transposed.
template <int64_t kFrames>
struct alignas(64) HeadTile {
  float at[kFrames * Attention::kMaxHeadSize];
  int64_t stride = 0;

  Matrix matrix() { return {at, stride}; }

  void set_zero(int64_t num_frames, int64_t head_size) {
    stride = padded(head_size);
    std::fill_n(at, num_frames * stride, 0.0f);
  }
};

// Scores of a tile with a wide tile.
struct alignas(64) ScoreTile {
  float at[kTile * kWideTile];

  Matrix matrix() { return {at, kWideTile}; }
};

// One row per frame of an utterance: one head of q, k, v, y or of a gradient; or some columns of
// its scores. Or one row per frame of a pack, with all heads.
template <class T>
struct Rows {
  T* first;
  int64_t stride;
  int64_t width;

  T* row(int64_t frame) const { return first + frame * stride; }
};

// Returns one head of the rows of all heads of a pack, starting at a row of the pack.
template <class T>
Rows<T> head_from(const Rows<T>& pack, int64_t row, const AttentionShape& shape,
                  const Piece& piece) {
  return {.first = pack.row(row) + piece.head * shape.head_size,
          .stride = pack.stride,
          .width = shape.head_size};
}

// Returns the head of a piece in a tensor [N, D] with one row per query.
template <class T>
Rows<T> head_rows(T* x, const AttentionShape& shape, const Piece& piece) {
  const Rows<T> pack{.first = x, .stride = shape.width(), .width = shape.width()};
  return head_from(pack, shape.first_query_of(piece.utterance), shape, piece);
}

// Returns some columns of one head's [queries, keys].
template <class T>
Rows<T> columns_of(T* scores, int64_t num_keys, const Span& keys) {
  return {.first = scores + keys.begin, .stride = num_keys, .width = keys.size()};
}

template <class T>
struct QkvRows {
  Rows<T> q;
  Rows<T> k;
  Rows<T> v;
};

// Rows of whole packs: for reading and for writing.
template <class T>
Rows<const T> input_rows(const HeadColumns& x) {
  const int64_t stride = x.rows.size(1);
  return {.first = x.rows.const_data_ptr<T>() + x.first_column, .stride = stride, .width = stride};
}
template <class T>
QkvRows<const T> input_rows(const AttentionOperands& in) {
  return {.q = input_rows<T>(in.q), .k = input_rows<T>(in.k), .v = input_rows<T>(in.v)};
}
template <class T>
Rows<T> output_rows(const HeadColumns& x) {
  const int64_t stride = x.rows.size(1);
  return {
      .first = x.rows.mutable_data_ptr<T>() + x.first_column, .stride = stride, .width = stride};
}
template <class T>
QkvRows<T> output_rows(const AttentionOperands& out) {
  return {.q = output_rows<T>(out.q), .k = output_rows<T>(out.k), .v = output_rows<T>(out.v)};
}

// Returns the head of a piece in the rows of whole packs.
template <class T>
QkvRows<T> head_rows(const QkvRows<T>& packs, const AttentionShape& shape, const Piece& piece) {
  const int64_t query = shape.first_query_of(piece.utterance);
  const int64_t key = shape.first_key_of(piece.utterance);
  return {.q = head_from(packs.q, query, shape, piece),
          .k = head_from(packs.k, key, shape, piece),
          .v = head_from(packs.v, key, shape, piece)};
}

// tile = rows * scale, with zeros in the padding.
template <int64_t kFrames, class T>
void load_tile(HeadTile<kFrames>& tile, const Rows<T>& rows, const Span& frames,
               float scale = 1.0f) {
  tile.stride = padded(rows.width);
  float* to = tile.at;
  for (int64_t frame = frames.begin; frame < frames.end; ++frame, to += tile.stride) {
    const T* from = rows.row(frame);
    simd::for_each_block(rows.width, [&](int64_t i, auto n) {
      simd::store(to + i, simd::load(from + i, n) * scale, simd::Full{});
    });
  }
}

// rows = tile * scale.
template <int64_t kFrames, class T>
void store_tile(const Rows<T>& rows, const Span& frames, const HeadTile<kFrames>& tile,
                float scale = 1.0f) {
  const float* from = tile.at;
  for (int64_t frame = frames.begin; frame < frames.end; ++frame, from += tile.stride) {
    T* to = rows.row(frame);
    simd::for_each_block(rows.width, [&](int64_t i, auto n) {
      simd::store(to + i, simd::load(from + i, simd::Full{}) * scale, n);
    });
  }
}

// transposed [head size, frames] = tile [frames, head size], with zeros in the padding.
template <int64_t kFrames>
void transpose_tile(HeadTile<kFrames>& transposed, const HeadTile<kFrames>& tile,
                    int64_t num_frames, int64_t head_size) {
  transposed.stride = kFrames;
  for (int64_t i = 0; i < head_size; ++i) {
    float* to = transposed.at + i * kFrames;
    for (int64_t frame = 0; frame < num_frames; ++frame) {
      to[frame] = tile.at[frame * tile.stride + i];
    }
    std::fill(to + num_frames, to + padded(num_frames), 0.0f);
  }
}

// Mask of the visible scores: the columns of a row from `before` frames before its own frame to
// `after` frames after it.
struct ScoreMask {
  Span rows;
  Span columns;
  int64_t before;
  int64_t after;

  // Sets all other scores to minus infinity.
  void apply(const Matrix& scores) const {
    constexpr float kNever = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < rows.size(); ++i) {
      const int64_t frame = rows.begin + i - columns.begin;
      const int64_t first = std::clamp<int64_t>(frame - before, 0, columns.size());
      const int64_t end = std::clamp<int64_t>(frame + after + 1, first, columns.size());
      std::fill(scores.row(i), scores.row(i) + first, kNever);
      std::fill(scores.row(i) + end, scores.row(i) + columns.size(), kNever);
    }
  }
};

// Returns the scale of the scores. It is applied to k when a tile of it is loaded, in forward and
// backward, so that both round the scores identically.
inline float score_scale(int64_t head_size) {
  return 1.0f / std::sqrt(static_cast<float>(head_size));
}

}  // namespace sotto::kernels::detail
