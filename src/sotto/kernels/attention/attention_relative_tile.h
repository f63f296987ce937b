// The term of relative positions in a tile of scores. Query i and key j of a tile need the position
// of distance i - j: a product of the tile's queries and of all positions that the tile needs is a
// band, whose row i holds the terms of the keys in order, starting one column earlier than in the
// row before. Internal to the CPU versions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sotto/kernels/attention/attention_tile.h"

namespace sotto::kernels::detail {

// Relative positions of one head of an utterance of T frames.
template <class T>
struct RelativeHead {
  Rows<const T> positions;     // [2 T - 1, head size], from the largest distance down
  const float* content_bias;   // [head size]
  const float* position_bias;  // [head size]
  int64_t length;              // T

  // Returns the positions that some queries and keys need; column 0 of a band is the first of them.
  Span rows_for(const Span& queries, const Span& keys) const {
    return {length - queries.end + keys.begin, length - 1 - queries.begin + keys.end};
  }
};

// Returns the relative positions of a piece; without positions if the call has none.
template <class T>
RelativeHead<T> relative_head(const AttentionShape& shape, const Piece& piece) {
  if (shape.relative == nullptr) return {};
  const Attention::Relative& relative = *shape.relative;
  const int64_t column = piece.head * shape.head_size;
  const Rows<const T> table{.first = relative.positions.const_data_ptr<T>(),
                            .stride = shape.width(),
                            .width = shape.width()};
  return {.positions = head_from(table, shape.first_position_of(piece.utterance), shape, piece),
          .content_bias = relative.content_bias.const_data_ptr<float>() + column,
          .position_bias = relative.position_bias.const_data_ptr<float>() + column,
          .length = shape.num_queries_of(piece.utterance)};
}

// tile = rows + bias, for every row.
template <int64_t kFrames>
void add_to_rows(HeadTile<kFrames>& tile, const HeadTile<kFrames>& rows, int64_t num_frames,
                 const Rows<const float>& bias) {
  tile.stride = rows.stride;
  for (int64_t frame = 0; frame < num_frames; ++frame) {
    const float* from = rows.at + frame * rows.stride;
    float* to = tile.at + frame * tile.stride;
    simd::for_each_block(bias.width, [&](int64_t i, auto n) {
      simd::store(to + i, simd::load(from + i, simd::Full{}) + simd::load(bias.first + i, n),
                  simd::Full{});
    });
  }
}

// The band of a wide tile of queries, for one tile of keys after another. Each needs kTile more
// positions than the one before: the band is a ring of columns, and each column is computed once.
struct ForwardBand {
  static constexpr int64_t kColumns = 256;  // at least kWideTile + kTile - 1, a power of two

  const TileProduct& product = TileProduct::best();
  HeadTile<kWideTile> q;    // with the bias of positions
  HeadTile<kTile> rows;     // positions, scaled
  HeadTile<kTile> columns;  // [head size, positions]
  alignas(64) float at[kWideTile * kColumns];
  int64_t num_computed;

  void begin(const HeadTile<kWideTile>& q_rows, int64_t num_queries,
             const Rows<const float>& bias) {
    add_to_rows(q, q_rows, num_queries, bias);
    num_computed = 0;
  }

  // Adds the term to scores [keys, queries]. `piece`: all queries and keys of this band.
  template <class T>
  void add_to(const Matrix& scores, const RelativeHead<T>& head, const Piece& piece,
              const Span& keys) {
    const Span all = head.rows_for(piece.queries, piece.keys);
    const Span needed = head.rows_for(piece.queries, keys);
    while (all.begin + num_computed < needed.end) compute_columns(head, piece, all);
    const int64_t num_queries = piece.queries.size();
    const int64_t skipped = needed.begin - all.begin;
    for (int64_t query = 0; query < num_queries; ++query) {
      const float* from = at + query * kColumns;
      const int64_t first = skipped + num_queries - 1 - query;
      for (int64_t key = 0; key < keys.size(); ++key) {
        scores.row(key)[query] += from[(first + key) % kColumns];
      }
    }
  }

 private:
  template <class T>
  void compute_columns(const RelativeHead<T>& head, const Piece& piece, const Span& all) {
    const int64_t first = all.begin + num_computed;
    const Span span{first, std::min(first + kTile, all.end)};
    const int64_t head_size = head.positions.width;
    load_tile(rows, head.positions, span, score_scale(head_size));
    transpose_tile(columns, rows, span.size(), head_size);
    product.assign({at + num_computed % kColumns, kColumns}, q.matrix(), columns.matrix(),
                   {piece.queries.size(), span.size(), head_size});
    num_computed += kTile;
  }
};

// Sums of the gradients of positions and biases of one head of an utterance, fp32. Rows are padded
// to whole blocks of sixteen.
struct RelativeSums {
  Matrix positions = {};      // [2 T - 1, head size]
  Matrix content_bias = {};   // [1, head size]
  Matrix position_bias = {};  // [1, head size]
};

// Returns where the sums of a piece are in the workspace: positions [H, sum of 2 T - 1, padded head
// size], biases [utterances, 2, H, padded head size]. Null if the call has no positions.
RelativeSums relative_sums(const AttentionGradient& gradient, const AttentionShape& shape,
                           const Piece& piece);

// Adds the sums of all utterances to the results of the call.
void add_relative_sums(const AttentionGradient& gradient, const AttentionShape& shape);

// The band of a tile of queries and a wide tile of keys, and what depends on it in backward.
struct BackwardBand {
  static constexpr int64_t kColumns = 192;  // at least kTile + kWideTile - 1

  const TileProduct& product = TileProduct::best();
  HeadTile<kTile> q;           // with the bias of positions
  HeadTile<kColumns> rows;     // positions, scaled
  HeadTile<kColumns> columns;  // [head size, positions]
  alignas(64) float at[kTile * kColumns];
  alignas(64) float column_sums[kColumns];
  alignas(64) float key_sums[kWideTile];

  Matrix matrix() { return {at, kColumns}; }

  // Computes the band. q_rows: the queries without a bias.
  template <class T>
  void load(const HeadTile<kTile>& q_rows, const RelativeHead<T>& head, const Span& queries,
            const Span& keys) {
    const Span needed = head.rows_for(queries, keys);
    const int64_t head_size = head.positions.width;
    add_to_rows(q, q_rows, queries.size(), {head.position_bias, head_size, head_size});
    load_tile(rows, head.positions, needed, score_scale(head_size));
    transpose_tile(columns, rows, needed.size(), head_size);
    product.assign(matrix(), q.matrix(), columns.matrix(),
                   {queries.size(), needed.size(), head_size});
  }

  // Adds the term to scores [queries, keys].
  void add_to(const Matrix& scores, int64_t num_queries, int64_t num_keys) const {
    for (int64_t query = 0; query < num_queries; ++query) {
      const float* from = at + query * kColumns + num_queries - 1 - query;
      float* to = scores.row(query);
      simd::for_each_block(num_keys, [&](int64_t i, auto n) {
        simd::store(to + i, simd::load(to + i, n) + simd::load(from + i, n), n);
      });
    }
  }

  // Replaces the band by that of d_scores [queries, keys], with zeros outside.
  void assign(const Matrix& d_scores, int64_t num_queries, int64_t num_keys) {
    for (int64_t query = 0; query < num_queries; ++query) {
      float* row = at + query * kColumns;
      float* first = row + num_queries - 1 - query;
      std::fill(row, first, 0.0f);
      std::copy_n(d_scores.row(query), num_keys, first);
      std::fill(first + num_keys, row + kColumns, 0.0f);
    }
  }

  // Adds the gradients of positions and of their bias; the former are not scaled.
  void accumulate(const RelativeSums& sums, const Span& needed, int64_t num_queries,
                  int64_t head_size) {
    const Matrix of_rows{sums.positions.row(needed.begin), sums.positions.stride};
    product.add_transposed(of_rows, matrix(), q.matrix(), {needed.size(), head_size, num_queries});
    add_rows(column_sums, matrix(), num_queries, needed.size(), /*from_zero=*/true);
    product.add(sums.position_bias, {column_sums, kColumns}, rows.matrix(),
                {1, head_size, needed.size()});
  }

  // sums = (sums or zero) + sum over rows.
  static void add_rows(float* sums, const Matrix& matrix, int64_t num_rows, int64_t num_columns,
                       bool from_zero) {
    if (from_zero) std::fill_n(sums, num_columns, 0.0f);
    for (int64_t row = 0; row < num_rows; ++row) {
      const float* from = matrix.row(row);
      simd::for_each_block(num_columns, [&](int64_t i, auto n) {
        simd::store(sums + i, simd::load(sums + i, n) + simd::load(from + i, n), n);
      });
    }
  }
};

}  // namespace sotto::kernels::detail
