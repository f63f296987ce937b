// Attention for everything that the libraries do not support: any head size up to 256, any window,
// type, with and without relative positions. A warp processes one query (in the gradients of keys
// and values one key, in that of positions one position) of one head, and its lanes share the
// head's values. Scores exist one at a time; sums have a fixed order; nothing is written twice.
#include <cuda_runtime.h>

#include "sotto/kernels/attention/attention_head.cuh"
#include "sotto/kernels/attention/attention_task.h"
#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"

namespace sotto::kernels::detail {

void attention_bias_gradients_cuda(const CudaAttentionTask& task,
                                   const CudaAttentionGradients& gradients, void* stream);
void attention_relative_forward_cuda(const CudaAttentionTask& task, void* stream);
void attention_relative_backward_cuda(const CudaAttentionTask& task,
                                      const CudaAttentionGradients& gradients, void* stream);

namespace {

constexpr int kWarpsABlock = 4;

// q, k or v of all heads, or a gradient: one row per frame.
template <class T>
struct HeadRows {
  T* first;
  int64_t stride;
};

template <class T>
struct Operands {
  HeadRows<T> q;
  HeadRows<T> k;
  HeadRows<T> v;
};

// The shape in the types used by device code, and the location of heads.
struct Layout {
  CudaPack queries;
  CudaPack keys;
  int64_t num_heads;
  int head_size;
  int64_t left;
  int64_t right;
  float scale;

  __device__ int64_t width() const { return num_heads * head_size; }
  template <class T>
  __device__ T* in_row(const HeadRows<T>& heads, int64_t row, int64_t head) const {
    return heads.first + row * heads.stride + head * head_size;
  }
  __device__ int64_t of_row(int64_t row, int64_t head) const {
    return row * width() + head * head_size;
  }
  __device__ int64_t statistic(int64_t row, int64_t head) const {
    return head * queries.num_frames + row;
  }
};

struct Rows {
  int64_t begin;
  int64_t end;
};

// One utterance and its rows in both packs.
struct Utterance {
  int64_t index;
  Rows queries;
  Rows keys;

  // The distance from a key to a query, by their rows.
  __device__ int64_t distance(int64_t query, int64_t key) const {
    return (query - queries.begin) - (key - keys.begin);
  }
};

__device__ Rows rows_of(const CudaPack& pack, int64_t utterance) {
  return {pack.starts[utterance], pack.starts[utterance + 1]};
}

// Returns the utterance that holds `row` of a pack.
__device__ int64_t index_of(const CudaPack& pack, int64_t row) {
  int64_t low = 0;
  int64_t high = pack.num_utterances;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (pack.starts[middle] <= row) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ Utterance utterance_at(const Layout& layout, int64_t index) {
  return {index, rows_of(layout.queries, index), rows_of(layout.keys, index)};
}
__device__ Utterance utterance_of_query(const Layout& layout, int64_t row) {
  return utterance_at(layout, index_of(layout.queries, row));
}
__device__ Utterance utterance_of_key(const Layout& layout, int64_t row) {
  return utterance_at(layout, index_of(layout.keys, row));
}

// Returns the rows of an utterance from `before` rows before a position to `after` rows after it,
// at most.
__device__ Rows rows_around(const Rows& all, int64_t position, int64_t before, int64_t after) {
  const int64_t row = all.begin + position;
  return {row - before > all.begin ? row - before : all.begin,
          row + after + 1 < all.end ? row + after + 1 : all.end};
}

// Return the keys that a query sees, and the queries that see a key.
__device__ Rows keys_of(const Layout& layout, const Utterance& utterance, int64_t query) {
  return rows_around(utterance.keys, query - utterance.queries.begin, layout.left, layout.right);
}
__device__ Rows queries_of(const Layout& layout, const Utterance& utterance, int64_t key) {
  return rows_around(utterance.queries, key - utterance.keys.begin, layout.right, layout.left);
}

// Relative positions of all heads: P rows, the one of distance 0 in the middle. Without data: none.
template <class T>
struct Relative {
  HeadRows<const T> positions;
  int64_t num_positions;
  const float* content_bias;   // [D]
  const float* position_bias;  // [D]

  __device__ int64_t row_of_distance(int64_t distance) const {
    return num_positions / 2 - distance;
  }
};

// A query with what its scores need: the query itself, or with relative positions its sums with the
// biases of contents and of positions. Scaled.
template <int kValues, class T>
struct Query {
  using Values = Head<kValues>;

  Values content;
  Values position;
  const T* zero;  // the position of distance 0, or null
  int64_t stride;

  __device__ static Query load(const HeadRows<const T>& rows, const Relative<T>& relative,
                               const Layout& layout, int64_t row, int64_t head) {
    Query query;
    query.content = Values::load(layout.in_row(rows, row, head), layout.head_size);
    query.zero = nullptr;
    query.stride = relative.positions.stride;
    if (relative.positions.first != nullptr) {
      query.position = query.content;
      const int64_t first = head * layout.head_size;
      query.content.add(1.0f, Values::load(relative.content_bias + first, layout.head_size));
      query.position.add(1.0f, Values::load(relative.position_bias + first, layout.head_size));
      query.position.scale(layout.scale);
      query.zero = layout.in_row(relative.positions, relative.row_of_distance(0), head);
    }
    query.content.scale(layout.scale);
    return query;
  }

  __device__ Values position_at(int64_t distance, int size) const {
    return Values::load(zero - distance * stride, size);
  }

  // `distance`: from the key to the query.
  __device__ float score(const Values& k, int64_t distance, int size) const {
    if (zero == nullptr) return content.dot(k);
    const Values p = position_at(distance, size);
    float sum = 0.0f;
    for (int i = 0; i < kValues; ++i)
      sum += content.values[i] * k.values[i] + position.values[i] * p.values[i];
    return warp_sum(sum);
  }
};

// Calls body(row, head), with one warp each, for all rows of a pack.
template <class Body>
__device__ void for_each_row_and_head(const CudaPack& pack, const Layout& layout, Body body) {
  const int64_t num_tasks = pack.num_frames * layout.num_heads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarpsABlock + threadIdx.x / kWarp;
  for (int64_t task = first; task < num_tasks;
       task += static_cast<int64_t>(gridDim.x) * kWarpsABlock)
    body(task / layout.num_heads, task % layout.num_heads);
}

template <int kValues, class T>
__global__ void forward_kernel(Operands<const T> in, Relative<T> relative, T* y, float* logsumexp,
                               Layout layout) {
  for_each_row_and_head(layout.queries, layout, [&](int64_t row, int64_t head) {
    using Values = Head<kValues>;
    const auto query = Query<kValues, T>::load(in.q, relative, layout, row, head);
    const Utterance utterance = utterance_of_query(layout, row);
    const Rows keys = keys_of(layout, utterance, row);
    Values sum = {};
    float largest = -INFINITY;
    float weights = 0.0f;
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      const Values k = Values::load(layout.in_row(in.k, key, head), layout.head_size);
      const float score = query.score(k, utterance.distance(row, key), layout.head_size);
      if (score > largest) {
        const float shrink = __expf(largest - score);
        sum.scale(shrink);
        weights *= shrink;
        largest = score;
      }
      const float weight = __expf(score - largest);
      weights += weight;
      sum.add(weight, Values::load(layout.in_row(in.v, key, head), layout.head_size));
    }
    sum.scale(1.0f / weights);
    sum.store(y + layout.of_row(row, head), layout.head_size);
    if (threadIdx.x % kWarp == 0) logsumexp[layout.statistic(row, head)] = largest + logf(weights);
  });
}

// What the gradients need in addition to q, k and v.
template <class T>
struct Saved {
  const T* dy;
  const float* logsumexp;
  float* delta;
};

// Computes dq of each query; also the product of y and dy, which the other gradients need.
template <int kValues, class T>
__global__ void query_gradient_kernel(Operands<const T> in, Relative<T> relative, const T* y,
                                      Saved<T> saved, HeadRows<T> dq_rows, Layout layout) {
  for_each_row_and_head(layout.queries, layout, [&](int64_t row, int64_t head) {
    using Values = Head<kValues>;
    const auto query = Query<kValues, T>::load(in.q, relative, layout, row, head);
    const Values gradient = Values::load(saved.dy + layout.of_row(row, head), layout.head_size);
    const float product =
        gradient.dot(Values::load(y + layout.of_row(row, head), layout.head_size));
    if (threadIdx.x % kWarp == 0) saved.delta[layout.statistic(row, head)] = product;
    const float log_weights = saved.logsumexp[layout.statistic(row, head)];
    const Utterance utterance = utterance_of_query(layout, row);
    const Rows keys = keys_of(layout, utterance, row);
    Values dq = {};
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      const Values k = Values::load(layout.in_row(in.k, key, head), layout.head_size);
      const Values v = Values::load(layout.in_row(in.v, key, head), layout.head_size);
      const int64_t distance = utterance.distance(row, key);
      const float probability = __expf(query.score(k, distance, layout.head_size) - log_weights);
      const float d_score = probability * (gradient.dot(v) - product);
      dq.add(d_score, k);
      if (query.zero != nullptr) dq.add(d_score, query.position_at(distance, layout.head_size));
    }
    dq.scale(layout.scale);
    dq.store(layout.in_row(dq_rows, row, head), layout.head_size);
  });
}

// What the gradient of a score is computed from.
template <class T>
struct Scores {
  Operands<const T> in;
  Relative<T> relative;
  Saved<T> saved;
  Layout layout;
};

// A key with its value, of one head.
template <int kValues>
struct Key {
  Head<kValues> k;
  Head<kValues> v;

  template <class T>
  __device__ static Key load(const Scores<T>& scores, int64_t row, int64_t head) {
    const Layout& layout = scores.layout;
    return {Head<kValues>::load(layout.in_row(scores.in.k, row, head), layout.head_size),
            Head<kValues>::load(layout.in_row(scores.in.v, row, head), layout.head_size)};
  }
};

// The gradient of the score of a key and a query, and what it is added to with.
template <int kValues, class T>
struct ScoreGradient {
  Query<kValues, T> query;
  Head<kValues> dy;
  float probability;
  float d_score;

  __device__ ScoreGradient(const Scores<T>& scores, int64_t row, int64_t head)
      : query(Query<kValues, T>::load(scores.in.q, scores.relative, scores.layout, row, head)),
        dy(Head<kValues>::load(scores.saved.dy + scores.layout.of_row(row, head),
                               scores.layout.head_size)) {
    const int64_t at = scores.layout.statistic(row, head);
    probability = scores.saved.logsumexp[at];
    d_score = scores.saved.delta[at];
  }

  // Completes the numbers, which are statistics of the query before.
  __device__ void compute(const Key<kValues>& key, int64_t distance, int size) {
    probability = __expf(query.score(key.k, distance, size) - probability);
    d_score = probability * (dy.dot(key.v) - d_score);
  }
};

// Computes dk and dv of each key: from all queries that see it, in order. `sums` [H, M]: if not
// null, the sum of the gradients of a key's scores.
template <int kValues, class T>
__global__ void key_gradient_kernel(Scores<T> scores, Operands<T> out, float* sums) {
  const Layout& layout = scores.layout;
  for_each_row_and_head(layout.keys, layout, [&](int64_t row, int64_t head) {
    const auto key = Key<kValues>::load(scores, row, head);
    const Utterance utterance = utterance_of_key(layout, row);
    const Rows queries = queries_of(layout, utterance, row);
    Head<kValues> dk = {};
    Head<kValues> dv = {};
    float sum = 0.0f;
    for (int64_t query = queries.begin; query < queries.end; ++query) {
      ScoreGradient<kValues, T> gradient(scores, query, head);
      gradient.compute(key, utterance.distance(query, row), layout.head_size);
      dv.add(gradient.probability, gradient.dy);
      dk.add(gradient.d_score, gradient.query.content);
      sum += gradient.d_score;
    }
    dk.store(layout.in_row(out.k, row, head), layout.head_size);
    dv.store(layout.in_row(out.v, row, head), layout.head_size);
    if (sums != nullptr && threadIdx.x % kWarp == 0)
      sums[head * layout.keys.num_frames + row] = sum;
  });
}

// Computes the gradient of each position: from all pairs of that distance, utterance by utterance.
// `sums` [H, P]: the sum of the gradients of their scores.
template <int kValues, class T>
__global__ void position_gradient_kernel(Scores<T> scores, T* d_positions, float* sums) {
  const Layout& layout = scores.layout;
  const CudaPack table{.num_frames = scores.relative.num_positions};
  for_each_row_and_head(table, layout, [&](int64_t row, int64_t head) {
    const int64_t distance = scores.relative.row_of_distance(row);
    const bool is_seen = distance <= layout.left && -distance <= layout.right;
    Head<kValues> dp = {};
    float sum = 0.0f;
    for (int64_t u = 0; is_seen && u < layout.queries.num_utterances; ++u) {
      const Rows rows = rows_of(layout.queries, u);
      const int64_t first = rows.begin + (distance > 0 ? distance : 0);
      const int64_t end = rows.end + (distance < 0 ? distance : 0);
      for (int64_t query = first; query < end; ++query) {
        ScoreGradient<kValues, T> gradient(scores, query, head);
        gradient.compute(Key<kValues>::load(scores, query - distance, head), distance,
                         layout.head_size);
        dp.add(gradient.d_score, gradient.query.position);
        sum += gradient.d_score;
      }
    }
    dp.store(d_positions + layout.of_row(row, head), layout.head_size);
    if (threadIdx.x % kWarp == 0) sums[head * table.num_frames + row] = sum;
  });
}

Layout layout_of(const CudaAttentionTask& task) {
  return {.queries = task.queries,
          .keys = task.keys,
          .num_heads = task.num_heads,
          .head_size = static_cast<int>(task.head_size),
          .left = task.left,
          .right = task.right,
          .scale = 1.0f / sqrtf(static_cast<float>(task.head_size))};
}

// Returns the number of blocks for one warp per row and head.
unsigned num_blocks(const CudaPack& pack, const CudaAttentionTask& task) {
  return launch_shape(pack.num_frames * task.num_heads * kWarp).blocks;
}

template <class T>
HeadRows<T> heads_at(const CudaHeadRows& heads) {
  return {static_cast<T*>(heads.first), heads.stride};
}

template <class T>
Operands<T> operands_at(const CudaAttentionOperands& operands) {
  return {heads_at<T>(operands.q), heads_at<T>(operands.k), heads_at<T>(operands.v)};
}

// Calls body with the number of values that a lane holds, as a constant.
template <class Body>
void with_values(int64_t head_size, Body body) {
  if (head_size <= 32) return body(std::integral_constant<int, 1>());
  if (head_size <= 64) return body(std::integral_constant<int, 2>());
  if (head_size <= 128) return body(std::integral_constant<int, 4>());
  body(std::integral_constant<int, 8>());
}

template <class T>
Relative<T> relative_at(const CudaRelative& relative) {
  return {.positions = {static_cast<const T*>(relative.positions.data), relative.positions.width},
          .num_positions = relative.positions.rows,
          .content_bias = relative.content_bias,
          .position_bias = relative.position_bias};
}

void run_backward(const CudaAttentionTask& task, const CudaAttentionGradients& gradients,
                  cudaStream_t stream) {
  with_cuda_type(task.y.type, [&](auto zero) {
    with_values(task.head_size, [&](auto values) {
      using T = decltype(zero);
      constexpr int kValues = decltype(values)::value;
      const auto in = operands_at<const T>(task.in);
      const auto out = operands_at<T>(gradients.out);
      const Relative<T> relative = relative_at<T>(task.relative);
      const Saved<T> saved{static_cast<const T*>(gradients.dy.data), task.logsumexp,
                           gradients.delta};
      const Scores<T> scores{in, relative, saved, layout_of(task)};
      constexpr int kThreads = kWarpsABlock * kWarp;
      query_gradient_kernel<kValues, T><<<num_blocks(task.queries, task), kThreads, 0, stream>>>(
          in, relative, static_cast<const T*>(task.y.data), saved, out.q, scores.layout);
      key_gradient_kernel<kValues, T><<<num_blocks(task.keys, task), kThreads, 0, stream>>>(
          scores, out, gradients.relative.key_sums);
      if (relative.positions.first == nullptr) return;
      const CudaPack table{.num_frames = relative.num_positions};
      position_gradient_kernel<kValues, T><<<num_blocks(table, task), kThreads, 0, stream>>>(
          scores, static_cast<T*>(gradients.relative.positions.data),
          gradients.relative.table_sums);
    });
  });
}

}  // namespace

void attention_forward_cuda(const CudaAttentionTask& task, void* stream) {
  if (task.relative.is_on_tensor_cores()) return attention_relative_forward_cuda(task, stream);
  with_cuda_type(task.y.type, [&](auto zero) {
    with_values(task.head_size, [&](auto values) {
      using T = decltype(zero);
      constexpr int kValues = decltype(values)::value;
      forward_kernel<kValues, T><<<num_blocks(task.queries, task), kWarpsABlock * kWarp, 0,
                                   static_cast<cudaStream_t>(stream)>>>(
          operands_at<const T>(task.in), relative_at<T>(task.relative),
          static_cast<T*>(task.y.data), task.logsumexp, layout_of(task));
    });
  });
  check_launch("attention forward");
}

void attention_backward_cuda(const CudaAttentionTask& task, const CudaAttentionGradients& gradients,
                             void* stream) {
  if (task.relative.is_on_tensor_cores()) {
    attention_relative_backward_cuda(task, gradients, stream);
  } else {
    run_backward(task, gradients, static_cast<cudaStream_t>(stream));
    check_launch("attention backward");
  }
  if (task.relative.positions.data != nullptr)
    attention_bias_gradients_cuda(task, gradients, stream);
}

}  // namespace sotto::kernels::detail
