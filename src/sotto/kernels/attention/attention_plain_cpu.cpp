// Attention that materialises the scores of an utterance and keeps its probabilities for backward:
// the baseline for the tiled version.
#include "sotto/kernels/attention/attention_cpu.h"
#include "sotto/kernels/attention/attention_tile.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd_math.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

// Calls body(offset, pieces) for each utterance: the offset of its [H, T, T] in the whole tensor,
// and a piece for each head and tile of frames, for queries as well as keys.
template <class Body>
void for_each_utterance(const AttentionShape& shape, Body body) {
  int64_t offset = 0;
  for (int64_t utterance = 0; utterance < shape.num_utterances(); ++utterance) {
    const int64_t length = shape.num_queries_of(utterance);
    Work pieces;
    for (int64_t head = 0; head < shape.num_heads; ++head) {
      for_each_tile<kTile>({0, length}, [&](const Span& frames) {
        pieces.add({utterance, head, frames, frames}, frames.size() * length * shape.head_size);
      });
    }
    body(offset, pieces);
    offset += shape.num_heads * length * length;
  }
}

// Computes probabilities [T] from a row of scores [T], which become exp(score - largest).
template <class T>
void softmax_row(float* scores, T* probabilities, int64_t length) {
  float largest = std::numeric_limits<float>::lowest();
  for (int64_t i = 0; i < length; ++i) largest = std::max(largest, scores[i]);
  Lanes sums = {};
  simd::for_each_block(length, [&](int64_t i, auto n) {
    const Lanes p = simd::masked(simd::exp(simd::load(scores + i, n) - largest), n);
    sums += p;
    simd::store(scores + i, p, n);
  });
  const float scale = 1.0f / simd::sum(sums);
  simd::for_each_block(length, [&](int64_t i, auto n) {
    simd::store(probabilities + i, simd::load(scores + i, n) * scale, n);
  });
}

// Replaces gradients of the probabilities [T] by those of the scores.
template <class T>
void softmax_gradient_row(float* gradients, const T* probabilities, int64_t length) {
  Lanes sums = {};
  simd::for_each_block(length, [&](int64_t i, auto n) {
    sums += simd::load(gradients + i, n) * simd::load(probabilities + i, n);
  });
  const float mean = simd::sum(sums);
  simd::for_each_block(length, [&](int64_t i, auto n) {
    const Lanes p = simd::load(probabilities + i, n);
    simd::store(gradients + i, p * (simd::load(gradients + i, n) - mean), n);
  });
}

struct PlainTiles {
  HeadTile<kTile> queries;  // q or dy, [queries, head size]
  HeadTile<kTile> keys;     // k or v, [keys, head size]
  HeadTile<kTile> keys_columns;
  HeadTile<kTile> weights;  // probabilities or gradients of scores, [queries, keys]
  HeadTile<kTile> first_sum;
  HeadTile<kTile> second_sum;
};

// Computes scores, probabilities and y of a tile of queries.
template <class T>
struct PlainForward {
  const AttentionShape& shape;
  const TileProduct& product = TileProduct::best();
  QkvRows<const T> head;
  Rows<T> y;
  float* scores;     // [T, T]
  T* probabilities;  // [T, T]

  void run(PlainTiles& tiles, const Span& queries, int64_t length) const {
    load_tile(tiles.queries, head.q, queries);
    for_each_tile<kTile>({0, length}, [&](const Span& keys) {
      load_tile(tiles.keys, head.k, keys, score_scale(shape.head_size));
      transpose_tile(tiles.keys_columns, tiles.keys, keys.size(), shape.head_size);
      tiles.weights.stride = padded(keys.size());
      product.assign(tiles.weights.matrix(), tiles.queries.matrix(), tiles.keys_columns.matrix(),
                     {queries.size(), keys.size(), shape.head_size});
      const ScoreMask mask{queries, keys, /*before=*/shape.left, /*after=*/shape.right};
      mask.apply(tiles.weights.matrix());
      store_tile(columns_of(scores, length, keys), queries, tiles.weights);
    });
    for (int64_t query = queries.begin; query < queries.end; ++query) {
      softmax_row(scores + query * length, probabilities + query * length, length);
    }
    tiles.first_sum.set_zero(queries.size(), shape.head_size);
    for_each_tile<kTile>({0, length}, [&](const Span& keys) {
      load_tile(tiles.keys, head.v, keys);
      load_tile(tiles.weights, columns_of(probabilities, length, keys), queries);
      product.add(tiles.first_sum.matrix(), tiles.weights.matrix(), tiles.keys.matrix(),
                  {queries.size(), shape.head_size, keys.size()});
    });
    store_tile(y, queries, tiles.first_sum);
  }
};

template <class T>
struct PlainBackward {
  const AttentionShape& shape;
  const TileProduct& product = TileProduct::best();
  QkvRows<const T> head;
  Rows<const T> dy;
  QkvRows<T> gradient;
  float* d_scores;         // [T, T]
  const T* probabilities;  // [T, T]

  // Computes the gradients of the scores and of q for a tile of queries.
  void run_queries(PlainTiles& tiles, const Span& queries, int64_t length) const {
    load_tile(tiles.queries, dy, queries);
    for_each_tile<kTile>({0, length}, [&](const Span& keys) {
      load_tile(tiles.keys, head.v, keys);
      transpose_tile(tiles.keys_columns, tiles.keys, keys.size(), shape.head_size);
      tiles.weights.stride = padded(keys.size());
      product.assign(tiles.weights.matrix(), tiles.queries.matrix(), tiles.keys_columns.matrix(),
                     {queries.size(), keys.size(), shape.head_size});
      store_tile(columns_of(d_scores, length, keys), queries, tiles.weights);
    });
    for (int64_t query = queries.begin; query < queries.end; ++query) {
      softmax_gradient_row(d_scores + query * length, probabilities + query * length, length);
    }
    tiles.first_sum.set_zero(queries.size(), shape.head_size);
    for_each_tile<kTile>({0, length}, [&](const Span& keys) {
      load_tile(tiles.keys, head.k, keys, score_scale(shape.head_size));
      load_tile(tiles.weights, columns_of(d_scores, length, keys), queries);
      product.add(tiles.first_sum.matrix(), tiles.weights.matrix(), tiles.keys.matrix(),
                  {queries.size(), shape.head_size, keys.size()});
    });
    store_tile(gradient.q, queries, tiles.first_sum);
  }

  // Computes the gradients of k and v for a tile of keys, after those of the scores.
  void run_keys(PlainTiles& tiles, const Span& keys, int64_t length) const {
    tiles.first_sum.set_zero(keys.size(), shape.head_size);
    tiles.second_sum.set_zero(keys.size(), shape.head_size);
    for_each_tile<kTile>({0, length}, [&](const Span& queries) {
      const Extent extent{keys.size(), shape.head_size, queries.size()};
      load_tile(tiles.queries, dy, queries);
      load_tile(tiles.weights, columns_of(probabilities, length, keys), queries);
      product.add_transposed(tiles.first_sum.matrix(), tiles.weights.matrix(),
                             tiles.queries.matrix(), extent);
      load_tile(tiles.queries, head.q, queries);
      load_tile(tiles.weights, columns_of(d_scores, length, keys), queries);
      product.add_transposed(tiles.second_sum.matrix(), tiles.weights.matrix(),
                             tiles.queries.matrix(), extent);
    });
    store_tile(gradient.v, keys, tiles.first_sum);
    store_tile(gradient.k, keys, tiles.second_sum, score_scale(shape.head_size));
  }
};

}  // namespace

void attention_plain_forward_cpu(const at::Tensor& qkv, const AttentionShape& shape,
                                 const Attention::Result& result, const at::Tensor& scores) {
  with_element_type(qkv, [&](auto zero) {
    using T = decltype(zero);
    const QkvRows<const T> packs = input_rows<T>(operands_of(qkv));
    for_each_utterance(shape, [&](int64_t offset, const Work& pieces) {
      pieces.run([&](const Piece* first, const Piece* last) {
        PlainTiles tiles;
        for (const Piece* piece = first; piece != last; ++piece) {
          const int64_t length = shape.num_queries_of(piece->utterance);
          const int64_t matrix = piece->head * length * length;
          const PlainForward<T> forward{
              .shape = shape,
              .head = head_rows(packs, shape, *piece),
              .y = head_rows(result.y.mutable_data_ptr<T>(), shape, *piece),
              .scores = scores.mutable_data_ptr<float>() + matrix,
              .probabilities = result.softmax.mutable_data_ptr<T>() + offset + matrix};
          forward.run(tiles, piece->queries, length);
        }
      });
    });
  });
}

void attention_plain_backward_cpu(const Attention::BackwardInputs& in, const AttentionShape& shape,
                                  const at::Tensor& dqkv, const at::Tensor& scores) {
  with_element_type(in.qkv, [&](auto zero) {
    using T = decltype(zero);
    const QkvRows<const T> packs = input_rows<T>(operands_of(in.qkv));
    const QkvRows<T> gradients = output_rows<T>(operands_of(dqkv));
    for_each_utterance(shape, [&](int64_t offset, const Work& pieces) {
      const auto run = [&](auto body) {
        pieces.run([&](const Piece* first, const Piece* last) {
          PlainTiles tiles;
          for (const Piece* piece = first; piece != last; ++piece) {
            const int64_t length = shape.num_queries_of(piece->utterance);
            const int64_t matrix = piece->head * length * length;
            const PlainBackward<T> backward{
                .shape = shape,
                .head = head_rows(packs, shape, *piece),
                .dy = head_rows(in.dy.const_data_ptr<T>(), shape, *piece),
                .gradient = head_rows(gradients, shape, *piece),
                .d_scores = scores.mutable_data_ptr<float>() + matrix,
                .probabilities = in.softmax.const_data_ptr<T>() + offset + matrix};
            body(backward, tiles, *piece, length);
          }
        });
      };
      run([](const auto& backward, PlainTiles& tiles, const Piece& piece, int64_t length) {
        backward.run_queries(tiles, piece.queries, length);
      });
      run([](const auto& backward, PlainTiles& tiles, const Piece& piece, int64_t length) {
        backward.run_keys(tiles, piece.keys, length);
      });
    });
  });
}

}  // namespace sotto::kernels::detail
