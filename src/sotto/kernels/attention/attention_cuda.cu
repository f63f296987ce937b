// Attention for everything that the libraries do not support: any head size up to 256, any window,
// type and bias. A warp processes one query (in the gradients of keys and values: one key) of one
// head, and its lanes share the head's values. Scores exist one at a time; sums have a fixed order;
// nothing is written twice.
#include <cuda_runtime.h>

#include "sotto/kernels/attention/attention_task.h"
#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"

namespace sotto::kernels::detail {

namespace {

constexpr int kWarpsABlock = 4;
// The values of a head that a lane holds: lane, lane + 32, ...
template <int kValues>
struct Head {
  float values[kValues];

  template <class T>
  __device__ static Head load(const T* from, int size) {
    Head head;
    for (int i = 0; i < kValues; ++i) {
      const int at = static_cast<int>(threadIdx.x % kWarp) + i * kWarp;
      head.values[i] = at < size ? static_cast<float>(from[at]) : 0.0f;
    }
    return head;
  }

  template <class T>
  __device__ void store(T* to, int size) const {
    for (int i = 0; i < kValues; ++i) {
      const int at = static_cast<int>(threadIdx.x % kWarp) + i * kWarp;
      if (at < size) to[at] = static_cast<T>(values[i]);
    }
  }

  // The result is the same on all lanes.
  __device__ float dot(const Head& other) const {
    float sum = 0.0f;
    for (int i = 0; i < kValues; ++i) sum += values[i] * other.values[i];
    return warp_sum(sum);
  }

  __device__ void add(float factor, const Head& other) {
    for (int i = 0; i < kValues; ++i) values[i] += factor * other.values[i];
  }

  __device__ void scale(float factor) {
    for (int i = 0; i < kValues; ++i) values[i] *= factor;
  }
};

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

  __device__ int64_t size() const { return end - begin; }
};

// One utterance and its rows in both packs.
struct Utterance {
  int64_t index;
  Rows queries;
  Rows keys;

  __device__ int64_t num_scores() const { return queries.size() * keys.size(); }
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

// Returns the offset of the scores [queries, keys] of one head of an utterance in a tensor of all
// scores, such as a bias. Must be called by the whole warp: its lanes share the loop over the
// preceding utterances.
__device__ int64_t scores_before(const Layout& layout, const Utterance& utterance, int64_t head) {
  int64_t scores = 0;
  for (int64_t u = threadIdx.x % kWarp; u < utterance.index; u += kWarp)
    scores += utterance_at(layout, u).num_scores();
  return layout.num_heads * warp_sum(scores) + head * utterance.num_scores();
}

// A bias of the scores, and its gradient: of all heads of all utterances, or of one head of one
// utterance. Null if absent.
template <class T>
struct Bias {
  const T* values;
  T* gradient;
};

template <class T>
struct HeadBias {
  Bias<T> bias;  // [queries, keys] each
  Utterance utterance;

  // Must be called by the whole warp.
  __device__ static HeadBias of(const Bias<T>& all, const Layout& layout,
                                const Utterance& utterance, int64_t head) {
    if (all.values == nullptr) return {{nullptr, nullptr}, utterance};
    const int64_t first = scores_before(layout, utterance, head);
    T* gradient = all.gradient == nullptr ? nullptr : all.gradient + first;
    return {{all.values + first, gradient}, utterance};
  }

  __device__ int64_t position(int64_t query, int64_t key) const {
    return (query - utterance.queries.begin) * utterance.keys.size() + (key - utterance.keys.begin);
  }
  __device__ float added_to(float score, int64_t query, int64_t key) const {
    if (bias.values == nullptr) return score;
    return score + static_cast<float>(bias.values[position(query, key)]);
  }
  // Called by one lane.
  __device__ void store_gradient(int64_t query, int64_t key, float d_score) const {
    if (bias.gradient == nullptr || threadIdx.x % kWarp != 0) return;
    bias.gradient[position(query, key)] = static_cast<T>(d_score);
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
__global__ void forward_kernel(Operands<const T> in, Bias<T> bias, T* y, float* logsumexp,
                               Layout layout) {
  for_each_row_and_head(layout.queries, layout, [&](int64_t row, int64_t head) {
    using Values = Head<kValues>;
    Values q = Values::load(layout.in_row(in.q, row, head), layout.head_size);
    q.scale(layout.scale);
    const Utterance utterance = utterance_of_query(layout, row);
    const auto head_bias = HeadBias<T>::of(bias, layout, utterance, head);
    const Rows keys = keys_of(layout, utterance, row);
    Values sum = {};
    float largest = -INFINITY;
    float weights = 0.0f;
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      const Values k = Values::load(layout.in_row(in.k, key, head), layout.head_size);
      const float score = head_bias.added_to(q.dot(k), row, key);
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

// Computes dq of each query and the gradient of the bias; also the product of y and dy, which the
// other gradients need.
template <int kValues, class T>
__global__ void query_gradient_kernel(Operands<const T> in, Bias<T> bias, const T* y,
                                      const float* logsumexp, const T* dy, HeadRows<T> dq_rows,
                                      float* delta, Layout layout) {
  for_each_row_and_head(layout.queries, layout, [&](int64_t row, int64_t head) {
    using Values = Head<kValues>;
    Values q = Values::load(layout.in_row(in.q, row, head), layout.head_size);
    q.scale(layout.scale);
    const Values gradient = Values::load(dy + layout.of_row(row, head), layout.head_size);
    const float product =
        gradient.dot(Values::load(y + layout.of_row(row, head), layout.head_size));
    if (threadIdx.x % kWarp == 0) delta[layout.statistic(row, head)] = product;
    const float log_weights = logsumexp[layout.statistic(row, head)];
    const Utterance utterance = utterance_of_query(layout, row);
    const auto head_bias = HeadBias<T>::of(bias, layout, utterance, head);
    const Rows keys = keys_of(layout, utterance, row);
    Values dq = {};
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      const Values k = Values::load(layout.in_row(in.k, key, head), layout.head_size);
      const Values v = Values::load(layout.in_row(in.v, key, head), layout.head_size);
      const float probability = __expf(head_bias.added_to(q.dot(k), row, key) - log_weights);
      const float d_score = probability * (gradient.dot(v) - product);
      dq.add(d_score, k);
      head_bias.store_gradient(row, key, d_score);
    }
    dq.scale(layout.scale);
    dq.store(layout.in_row(dq_rows, row, head), layout.head_size);
  });
}

// Computes dk and dv of each key: from all queries that see it, in order.
template <int kValues, class T>
__global__ void key_gradient_kernel(Operands<const T> in, Bias<T> bias, const float* logsumexp,
                                    const T* dy, Operands<T> out, const float* delta,
                                    Layout layout) {
  for_each_row_and_head(layout.keys, layout, [&](int64_t row, int64_t head) {
    using Values = Head<kValues>;
    const Values k = Values::load(layout.in_row(in.k, row, head), layout.head_size);
    const Values v = Values::load(layout.in_row(in.v, row, head), layout.head_size);
    const Utterance utterance = utterance_of_key(layout, row);
    const auto head_bias = HeadBias<T>::of(bias, layout, utterance, head);
    const Rows queries = queries_of(layout, utterance, row);
    Values dk = {};
    Values dv = {};
    for (int64_t query = queries.begin; query < queries.end; ++query) {
      Values q = Values::load(layout.in_row(in.q, query, head), layout.head_size);
      q.scale(layout.scale);
      const Values gradient = Values::load(dy + layout.of_row(query, head), layout.head_size);
      const int64_t at = layout.statistic(query, head);
      const float probability = __expf(head_bias.added_to(q.dot(k), query, row) - logsumexp[at]);
      dv.add(probability, gradient);
      dk.add(probability * (gradient.dot(v) - delta[at]), q);
    }
    dk.store(layout.in_row(out.k, row, head), layout.head_size);
    dv.store(layout.in_row(out.v, row, head), layout.head_size);
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

}  // namespace

void attention_forward_cuda(const CudaAttentionTask& task, void* stream) {
  with_cuda_type(task.y.type, [&](auto zero) {
    with_values(task.head_size, [&](auto values) {
      using T = decltype(zero);
      constexpr int kValues = decltype(values)::value;
      forward_kernel<kValues, T><<<num_blocks(task.queries, task), kWarpsABlock * kWarp, 0,
                                   static_cast<cudaStream_t>(stream)>>>(
          operands_at<const T>(task.in), Bias<T>{static_cast<const T*>(task.bias.data), nullptr},
          static_cast<T*>(task.y.data), task.logsumexp, layout_of(task));
    });
  });
  check_launch("attention forward");
}

void attention_backward_cuda(const CudaAttentionTask& task, const CudaAttentionGradients& gradients,
                             void* stream) {
  with_cuda_type(task.y.type, [&](auto zero) {
    with_values(task.head_size, [&](auto values) {
      using T = decltype(zero);
      constexpr int kValues = decltype(values)::value;
      const auto in = operands_at<const T>(task.in);
      const auto out = operands_at<T>(gradients.out);
      const auto* dy = static_cast<const T*>(gradients.dy.data);
      const Bias<T> bias{static_cast<const T*>(task.bias.data),
                         static_cast<T*>(gradients.d_bias.data)};
      constexpr int kThreads = kWarpsABlock * kWarp;
      auto* on = static_cast<cudaStream_t>(stream);
      query_gradient_kernel<kValues, T><<<num_blocks(task.queries, task), kThreads, 0, on>>>(
          in, bias, static_cast<const T*>(task.y.data), task.logsumexp, dy, out.q, gradients.delta,
          layout_of(task));
      key_gradient_kernel<kValues, T><<<num_blocks(task.keys, task), kThreads, 0, on>>>(
          in, bias, task.logsumexp, dy, out, gradients.delta, layout_of(task));
    });
  });
  check_launch("attention backward");
}

}  // namespace sotto::kernels::detail
