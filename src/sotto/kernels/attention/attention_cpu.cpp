// Tiled attention, after FlashAttention-2 (Dao 2023, algorithms 1 and 2): the softmax is computed
// together with the products, one tile of keys at a time, and backward recomputes the probabilities
// from the logsumexp.
#include "sotto/kernels/attention/attention_cpu.h"

#include "sotto/kernels/attention/attention_relative_tile.h"
#include "sotto/kernels/attention/attention_tile.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd_math.h"

namespace sotto::kernels::detail {

namespace {

using simd::Full;
using simd::Lanes;

// --- partitioning of the work

// Calls body(whole) for each head of each utterance: a piece with all its queries and keys.
template <class Body>
void for_each_head(const AttentionShape& shape, Body body) {
  for (int64_t utterance = 0; utterance < shape.num_utterances(); ++utterance) {
    const Span queries{0, shape.num_queries_of(utterance)};
    const Span keys{0, shape.num_keys_of(utterance)};
    for (int64_t head = 0; head < shape.num_heads; ++head) {
      body(Piece{utterance, head, queries, keys});
    }
  }
}

// Creates a piece for each wide tile of queries, with all keys that they see.
Work work_by_queries(const AttentionShape& shape) {
  Work work;
  for_each_head(shape, [&](const Piece& whole) {
    for_each_tile<kWideTile>(whole.queries, [&](const Span& queries) {
      const Span keys = shape.keys_seen_by(queries, whole.keys.size());
      work.add({whole.utterance, whole.head, queries, keys},
               queries.size() * keys.size() * shape.head_size);
    });
  });
  return work;
}

// Creates a piece for each wide tile of keys, with all queries that see them.
Work work_by_keys(const AttentionShape& shape) {
  Work work;
  for_each_head(shape, [&](const Piece& whole) {
    for_each_tile<kWideTile>(whole.keys, [&](const Span& keys) {
      const Span queries = shape.queries_that_see(keys, whole.queries.size());
      work.add({whole.utterance, whole.head, queries, keys},
               queries.size() * keys.size() * shape.head_size);
    });
  });
  return work;
}

// Creates a piece for each head of each utterance.
Work work_by_heads(const AttentionShape& shape) {
  Work work;
  for_each_head(shape, [&](const Piece& whole) {
    int64_t pairs = 0;
    for_each_tile<kWideTile>(whole.keys, [&](const Span& keys) {
      pairs += keys.size() * shape.queries_that_see(keys, whole.queries.size()).size();
    });
    work.add(whole, pairs * shape.head_size);
  });
  return work;
}

// --- forward

// Processes a wide tile of queries. Scores are stored as [keys, queries]: the maximum and the sum
// are then computed for sixteen queries at a time.
struct ForwardTiles {
  const TileProduct& product = TileProduct::best();
  HeadTile<kWideTile> q_rows;
  HeadTile<kWideTile> q;  // [head size, queries]
  HeadTile<kWideTile> y;  // [queries, head size], up to a factor for each query
  HeadTile<kTile> k;      // [keys, head size], scaled
  HeadTile<kTile> v;      // [keys, head size]
  ScoreTile scores;
  ForwardBand band;
  // Per query:
  alignas(64) float largest[kWideTile];  // maximum of the scores so far
  alignas(64) float sum[kWideTile];      // sum of exp(score - largest)
  alignas(64) float factor[kWideTile];   // factor by which y is rescaled

  template <class T>
  void run(const QkvRows<const T>& head, const RelativeHead<T>& relative,
           const AttentionShape& shape, const Piece& piece) {
    const int64_t num_queries = piece.queries.size();
    load_tile(q_rows, head.q, piece.queries);
    if (shape.relative != nullptr) {
      const int64_t size = shape.head_size;
      band.begin(q_rows, num_queries, {relative.position_bias, size, size});
      add_to_rows(q_rows, q_rows, num_queries, {relative.content_bias, size, size});
    }
    transpose_tile(q, q_rows, num_queries, shape.head_size);
    y.set_zero(num_queries, shape.head_size);
    // Finite, so that a query without a key in the first tile does not produce NaN.
    std::fill_n(largest, kWideTile, std::numeric_limits<float>::lowest());
    std::fill_n(sum, kWideTile, 0.0f);
    for_each_tile<kTile>(piece.keys, [&](const Span& keys) {
      load_tile(k, head.k, keys, score_scale(shape.head_size));
      load_tile(v, head.v, keys);
      product.assign(scores.matrix(), k.matrix(), q.matrix(),
                     {keys.size(), num_queries, shape.head_size});
      if (shape.relative != nullptr) band.add_to(scores.matrix(), relative, piece, keys);
      if (!shape.all_see_all(piece.queries, keys)) {
        const ScoreMask mask{keys, piece.queries, /*before=*/shape.right, /*after=*/shape.left};
        mask.apply(scores.matrix());
      }
      to_probabilities(keys.size(), num_queries);
      apply_factors(num_queries);
      product.add_transposed(y.matrix(), scores.matrix(), v.matrix(),
                             {num_queries, shape.head_size, keys.size()});
    });
    for (int64_t query = 0; query < num_queries; ++query) factor[query] = 1.0f / sum[query];
    apply_factors(num_queries);
  }

  // Replaces scores by exp(score - largest). If the maximum has grown, earlier sums are rescaled.
  void to_probabilities(int64_t num_keys, int64_t num_queries) {
    for (int64_t i = 0; i < num_queries; i += simd::kLanes) {
      const Lanes before = simd::load(largest + i, Full{});
      Lanes now = before;
      for (int64_t key = 0; key < num_keys; ++key) {
        now = simd::max(now, simd::load(scores.at + key * kWideTile + i, Full{}));
      }
      const Lanes shrink = simd::exp(before - now);
      Lanes total = simd::load(sum + i, Full{}) * shrink;
      for (int64_t key = 0; key < num_keys; ++key) {
        float* score = scores.at + key * kWideTile + i;
        const Lanes p = simd::exp(simd::load(score, Full{}) - now);
        simd::store(score, p, Full{});
        total += p;
      }
      simd::store(largest + i, now, Full{});
      simd::store(sum + i, total, Full{});
      simd::store(factor + i, shrink, Full{});
    }
  }

  void apply_factors(int64_t num_queries) {
    for (int64_t query = 0; query < num_queries; ++query) {
      if (factor[query] == 1.0f) continue;
      float* row = y.at + query * y.stride;
      for (int64_t i = 0; i < y.stride; i += simd::kLanes) {
        simd::store(row + i, simd::load(row + i, Full{}) * factor[query], Full{});
      }
    }
  }
};

// --- backward

// Gradients that a pass computes.
enum class Pass { kAll, kQueries, kKeys };

// The operands of one head of one utterance.
template <class T>
struct BackwardHead {
  QkvRows<const T> in;
  Rows<const T> dy;
  QkvRows<T> out;
  Rows<float> dq_sum;
  const float* logsumexp;  // [queries]
  const float* delta;      // [queries]
  RelativeHead<T> relative;
  RelativeSums sums;
  int64_t num_queries;
  int64_t num_keys;
};

// Processes wide tiles of keys against tiles of queries. Scores are stored as [queries, keys].
template <class T>
struct BackwardTiles {
  const TileProduct& product = TileProduct::best();
  HeadTile<kWideTile> k;          // [keys, head size], scaled
  HeadTile<kWideTile> k_columns;  // [head size, keys]
  HeadTile<kWideTile> v_columns;
  HeadTile<kWideTile> dk;
  HeadTile<kWideTile> dv;
  HeadTile<kTile> q;  // [queries, head size]
  HeadTile<kTile> dy;
  HeadTile<kTile> dq;
  ScoreTile scores;
  ScoreTile d_scores;
  BackwardBand band;
  const AttentionShape& shape;
  Pass pass;

  // Leaves the tiles uninitialised: each is written before it is read.
  BackwardTiles(const AttentionShape& shape_of_call, Pass pass_of_call)
      : shape(shape_of_call), pass(pass_of_call) {}

  void run(const BackwardHead<T>& head, const Piece& piece) {
    const Span all_keys = whole_tiles<kWideTile>(piece.keys, head.num_keys);
    for_each_tile<kWideTile>(all_keys, [&](const Span& keys) {
      load_keys(head, keys);
      std::fill_n(band.key_sums, kWideTile, 0.0f);
      const Span seen_by = shape.queries_that_see(keys, head.num_queries);
      const Span both{std::max(seen_by.begin, piece.queries.begin),
                      std::min(seen_by.end, piece.queries.end)};
      for_each_tile<kTile>(whole_tiles<kTile>(both, head.num_queries),
                           [&](const Span& queries) { run_pair(head, queries, keys); });
      if (pass == Pass::kQueries) return;
      store_tile(head.out.k, keys, dk, score_scale(shape.head_size));
      store_tile(head.out.v, keys, dv);
      if (shape.relative != nullptr)
        product.add(head.sums.content_bias, {band.key_sums, kWideTile}, k.matrix(),
                    {1, shape.head_size, keys.size()});
    });
  }

  void load_keys(const BackwardHead<T>& head, const Span& keys) {
    load_tile(k, head.in.k, keys, score_scale(shape.head_size));
    transpose_tile(k_columns, k, keys.size(), shape.head_size);
    load_tile(dv, head.in.v, keys);  // not in use yet
    transpose_tile(v_columns, dv, keys.size(), shape.head_size);
    dk.set_zero(keys.size(), shape.head_size);
    dv.set_zero(keys.size(), shape.head_size);
  }

  void run_pair(const BackwardHead<T>& head, const Span& queries, const Span& keys) {
    load_tile(q, head.in.q, queries);
    load_tile(dy, head.dy, queries);
    to_scores(head, queries, keys);
    if (!shape.all_see_all(queries, keys)) {
      const ScoreMask mask{queries, keys, /*before=*/shape.left, /*after=*/shape.right};
      mask.apply(scores.matrix());
    }
    to_gradients(head, queries, keys.size());
    if (shape.relative != nullptr) {
      const Span needed = head.relative.rows_for(queries, keys);
      band.assign(d_scores.matrix(), queries.size(), keys.size());
      band.accumulate(head.sums, needed, queries.size(), shape.head_size);
      BackwardBand::add_rows(band.key_sums, d_scores.matrix(), queries.size(), keys.size(), false);
    }
    if (pass != Pass::kQueries) {
      const Extent to_keys{keys.size(), shape.head_size, queries.size()};
      product.add_transposed(dv.matrix(), scores.matrix(), dy.matrix(), to_keys);
      product.add_transposed(dk.matrix(), d_scores.matrix(), q.matrix(), to_keys);
    }
    if (pass == Pass::kKeys) return;
    add_to_dq(head, queries, keys);
  }

  // Computes scores, and the gradients of the probabilities in d_scores.
  void to_scores(const BackwardHead<T>& head, const Span& queries, const Span& keys) {
    const Extent extent{queries.size(), keys.size(), shape.head_size};
    product.assign(d_scores.matrix(), dy.matrix(), v_columns.matrix(), extent);
    if (shape.relative == nullptr) {
      product.assign(scores.matrix(), q.matrix(), k_columns.matrix(), extent);
      return;
    }
    // From here on q has the bias of contents: the gradient of k needs that as well.
    const HeadTile<kTile>& without_bias = q;
    band.load(without_bias, head.relative, queries, keys);
    add_to_rows(q, q, queries.size(),
                {head.relative.content_bias, shape.head_size, shape.head_size});
    product.assign(scores.matrix(), q.matrix(), k_columns.matrix(), extent);
    band.add_to(scores.matrix(), queries.size(), keys.size());
  }

  // Replaces scores by probabilities, and gradients of the probabilities by those of the scores.
  void to_gradients(const BackwardHead<T>& head, const Span& queries, int64_t num_keys) {
    for (int64_t query = 0; query < queries.size(); ++query) {
      const float logsumexp = head.logsumexp[queries.begin + query];
      const float delta = head.delta[queries.begin + query];
      float* score = scores.at + query * kWideTile;
      float* gradient = d_scores.at + query * kWideTile;
      for (int64_t i = 0; i < num_keys; i += simd::kLanes) {
        const Lanes p = simd::exp(simd::load(score + i, Full{}) - logsumexp);
        simd::store(score + i, p, Full{});
        simd::store(gradient + i, p * (simd::load(gradient + i, Full{}) - delta), Full{});
      }
    }
  }

  // dq is summed over tiles of keys in order, with intermediate sums in fp32.
  void add_to_dq(const BackwardHead<T>& head, const Span& queries, const Span& keys) {
    const Span seen = shape.keys_seen_by(queries, head.num_keys);
    if (keys.begin <= seen.begin) {
      dq.set_zero(queries.size(), shape.head_size);
    } else {
      load_tile(dq, head.dq_sum, queries);
    }
    product.add(dq.matrix(), d_scores.matrix(), k.matrix(),
                {queries.size(), shape.head_size, keys.size()});
    if (shape.relative != nullptr)
      product.add(dq.matrix(), band.matrix(), band.rows.matrix(),
                  {queries.size(), shape.head_size, head.relative.rows_for(queries, keys).size()});
    if (keys.end >= seen.end) {
      store_tile(head.out.q, queries, dq);
    } else {
      store_tile(head.dq_sum, queries, dq);
    }
  }
};

// delta [H, N] = sum over a head of dy y.
template <class T>
void sum_delta(const AttentionBackward& in, const AttentionShape& shape, float* delta) {
  const T* y = in.y.const_data_ptr<T>();
  const T* dy = in.dy.const_data_ptr<T>();
  const int64_t frames = shape.queries.num_frames();
  parallel_rows(frames, shape.width(), [&](int64_t begin, int64_t end) {
    for (int64_t frame = begin; frame < end; ++frame) {
      for (int64_t head = 0; head < shape.num_heads; ++head) {
        const int64_t first = frame * shape.width() + head * shape.head_size;
        Lanes sums = {};
        simd::for_each_block(shape.head_size, [&](int64_t i, auto n) {
          sums += simd::load(y + first + i, n) * simd::load(dy + first + i, n);
        });
        delta[head * frames + frame] = simd::sum(sums);
      }
    }
  });
}

}  // namespace

void attention_forward_cpu(const AttentionOperands& in, const AttentionShape& shape,
                           const Attention::Result& result) {
  float* logsumexp = result.softmax.mutable_data_ptr<float>();
  with_element_type(in.q.rows, [&](auto zero) {
    using T = decltype(zero);
    const QkvRows<const T> packs = input_rows<T>(in);
    T* out = result.y.mutable_data_ptr<T>();
    work_by_queries(shape).run([&](const Piece* first, const Piece* last) {
      ForwardTiles tiles;
      for (const Piece* piece = first; piece != last; ++piece) {
        tiles.run(head_rows(packs, shape, *piece), relative_head<T>(shape, *piece), shape, *piece);
        store_tile(head_rows(out, shape, *piece), piece->queries, tiles.y);
        float* to = logsumexp + piece->head * shape.queries.num_frames() +
                    shape.first_query_of(piece->utterance) + piece->queries.begin;
        for (int64_t i = 0; i < piece->queries.size(); ++i) {
          to[i] = tiles.largest[i] + std::log(tiles.sum[i]);
        }
      }
    });
  });
}

void attention_backward_cpu(const AttentionBackward& in, const AttentionShape& shape,
                            const AttentionGradient& gradient) {
  const float* logsumexp = in.softmax.const_data_ptr<float>();
  float* delta = gradient.delta.mutable_data_ptr<float>();
  with_element_type(in.dy, [&](auto zero) {
    using T = decltype(zero);
    const QkvRows<const T> packs = input_rows<T>(in.in);
    const QkvRows<T> gradients = output_rows<T>(gradient.out);
    const T* dy = in.dy.const_data_ptr<T>();
    sum_delta<T>(in, shape, delta);
    const auto run = [&](const Work& work, Pass pass) {
      work.run([&](const Piece* first, const Piece* last) {
        BackwardTiles<T> tiles(shape, pass);
        for (const Piece* piece = first; piece != last; ++piece) {
          const int64_t row =
              piece->head * shape.queries.num_frames() + shape.first_query_of(piece->utterance);
          BackwardHead<T> head{.in = head_rows(packs, shape, *piece),
                               .dy = head_rows(dy, shape, *piece),
                               .out = head_rows(gradients, shape, *piece),
                               .dq_sum = {},
                               .logsumexp = logsumexp + row,
                               .delta = delta + row,
                               .relative = relative_head<T>(shape, *piece),
                               .sums = relative_sums(gradient, shape, *piece),
                               .num_queries = shape.num_queries_of(piece->utterance),
                               .num_keys = shape.num_keys_of(piece->utterance)};
          // fp32 gradients are accumulated in place.
          if constexpr (std::is_same_v<T, float>) {
            head.dq_sum = head.out.q;
          } else {
            head.dq_sum = head_rows(gradient.dq_sum.mutable_data_ptr<float>(), shape, *piece);
          }
          tiles.run(head, *piece);
        }
      });
    };
    // Processing head by head computes each score once for all three gradients. If there are too
    // few heads for the cores, or their costs are too unequal, two passes with smaller pieces and 7
    // instead of 5 products are faster. Both compute the same sums in the same order.
    const Work by_heads = work_by_heads(shape);
    const int64_t cores = at::in_parallel_region() ? 1 : at::get_num_threads();
    // Gradients of positions are sums over both queries and keys.
    const bool has_positions = shape.relative != nullptr;
    if (has_positions || 5 * by_heads.largest_share(cores) * cores <= 7 * by_heads.total()) {
      run(by_heads, Pass::kAll);
    } else {
      run(work_by_keys(shape), Pass::kKeys);
      run(work_by_queries(shape), Pass::kQueries);
    }
    if (has_positions) add_relative_sums(gradient, shape);
  });
}

}  // namespace sotto::kernels::detail
