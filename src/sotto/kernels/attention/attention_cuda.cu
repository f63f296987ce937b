// Attention for what no library has: any head size up to 256, any window, any type, any bias. A
// warp has one query (in the gradients of keys and values: one key) of one head, its lanes share
// the head's values. Scores exist one at a time; sums have one order; nothing is written twice.
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

  // The same on all lanes.
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

// The shape with the types that device code computes in, and where heads lie.
struct Layout {
  CudaPack pack;
  int64_t num_heads;
  int head_size;
  int64_t left;
  int64_t right;
  float scale;

  __device__ int64_t width() const { return num_heads * head_size; }
  // Part 0, 1, 2 of a row of qkv: q, k, v of a head.
  __device__ int64_t part(int64_t row, int64_t head, int64_t which) const {
    return (3 * row + which) * width() + head * head_size;
  }
  __device__ int64_t of_row(int64_t row, int64_t head) const {
    return row * width() + head * head_size;
  }
  __device__ int64_t statistic(int64_t row, int64_t head) const {
    return head * pack.num_frames + row;
  }
};

struct Rows {
  int64_t begin;
  int64_t end;
};

// One utterance of the pack and its rows.
struct Utterance {
  int64_t index;
  Rows rows;

  __device__ int64_t length() const { return rows.end - rows.begin; }
};

// The one that holds `row`.
__device__ Utterance utterance_of(const CudaPack& pack, int64_t row) {
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
  return {low, {pack.starts[low], pack.starts[low + 1]}};
}

// The rows of an utterance, at most `before` before one of them and `behind` behind it.
__device__ Rows rows_around(const Utterance& utterance, int64_t row, int64_t before,
                            int64_t behind) {
  const Rows& all = utterance.rows;
  return {row - before > all.begin ? row - before : all.begin,
          row + behind + 1 < all.end ? row + behind + 1 : all.end};
}

// Where the scores of a head of an utterance, [T, T], begin among those of all, as a bias holds
// them. The whole warp must call it: its lanes share the utterances before this one.
__device__ int64_t scores_before(const Layout& layout, const Utterance& utterance, int64_t head) {
  int64_t squares = 0;
  for (int64_t u = threadIdx.x % kWarp; u < utterance.index; u += kWarp) {
    const int64_t length = layout.pack.starts[u + 1] - layout.pack.starts[u];
    squares += length * length;
  }
  return layout.num_heads * warp_sum(squares) + head * utterance.length() * utterance.length();
}

// What is added to scores, and its gradient: of all heads of all utterances, or of one head of one.
// Null where there is none.
template <class T>
struct Bias {
  const T* values;
  T* gradient;
};

template <class T>
struct HeadBias {
  Bias<T> bias;  // [T, T] each
  Utterance utterance;

  // The whole warp must call it.
  __device__ static HeadBias of(const Bias<T>& all, const Layout& layout,
                                const Utterance& utterance, int64_t head) {
    if (all.values == nullptr) return {{nullptr, nullptr}, utterance};
    const int64_t first = scores_before(layout, utterance, head);
    T* gradient = all.gradient == nullptr ? nullptr : all.gradient + first;
    return {{all.values + first, gradient}, utterance};
  }

  __device__ int64_t place(int64_t query, int64_t key) const {
    const int64_t first = utterance.rows.begin;
    return (query - first) * utterance.length() + (key - first);
  }
  __device__ float added_to(float score, int64_t query, int64_t key) const {
    if (bias.values == nullptr) return score;
    return score + static_cast<float>(bias.values[place(query, key)]);
  }
  // By one lane.
  __device__ void store_gradient(int64_t query, int64_t key, float d_score) const {
    if (bias.gradient == nullptr || threadIdx.x % kWarp != 0) return;
    bias.gradient[place(query, key)] = static_cast<T>(d_score);
  }
};

// Calls body(row, head) with one warp each.
template <class Body>
__device__ void for_each_row_and_head(const Layout& layout, Body body) {
  const int64_t num_tasks = layout.pack.num_frames * layout.num_heads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarpsABlock + threadIdx.x / kWarp;
  for (int64_t task = first; task < num_tasks;
       task += static_cast<int64_t>(gridDim.x) * kWarpsABlock)
    body(task / layout.num_heads, task % layout.num_heads);
}

template <int kValues, class T>
__global__ void forward_kernel(const T* qkv, Bias<T> bias, T* y, float* logsumexp, Layout layout) {
  for_each_row_and_head(layout, [&](int64_t row, int64_t head) {
    using Values = Head<kValues>;
    Values q = Values::load(qkv + layout.part(row, head, 0), layout.head_size);
    q.scale(layout.scale);
    const Utterance utterance = utterance_of(layout.pack, row);
    const auto head_bias = HeadBias<T>::of(bias, layout, utterance, head);
    const Rows keys = rows_around(utterance, row, layout.left, layout.right);
    Values sum = {};
    float largest = -INFINITY;
    float weights = 0.0f;
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      const Values k = Values::load(qkv + layout.part(key, head, 1), layout.head_size);
      const float score = head_bias.added_to(q.dot(k), row, key);
      if (score > largest) {
        const float shrink = __expf(largest - score);
        sum.scale(shrink);
        weights *= shrink;
        largest = score;
      }
      const float weight = __expf(score - largest);
      weights += weight;
      sum.add(weight, Values::load(qkv + layout.part(key, head, 2), layout.head_size));
    }
    sum.scale(1.0f / weights);
    sum.store(y + layout.of_row(row, head), layout.head_size);
    if (threadIdx.x % kWarp == 0) logsumexp[layout.statistic(row, head)] = largest + logf(weights);
  });
}

// dq of each query, and with it the gradient of the bias; on the way the product of y and dy, which
// the other gradients need.
template <int kValues, class T>
__global__ void query_gradient_kernel(const T* qkv, Bias<T> bias, const T* y,
                                      const float* logsumexp, const T* dy, T* dqkv, float* delta,
                                      Layout layout) {
  for_each_row_and_head(layout, [&](int64_t row, int64_t head) {
    using Values = Head<kValues>;
    Values q = Values::load(qkv + layout.part(row, head, 0), layout.head_size);
    q.scale(layout.scale);
    const Values gradient = Values::load(dy + layout.of_row(row, head), layout.head_size);
    const float product =
        gradient.dot(Values::load(y + layout.of_row(row, head), layout.head_size));
    if (threadIdx.x % kWarp == 0) delta[layout.statistic(row, head)] = product;
    const float log_weights = logsumexp[layout.statistic(row, head)];
    const Utterance utterance = utterance_of(layout.pack, row);
    const auto head_bias = HeadBias<T>::of(bias, layout, utterance, head);
    const Rows keys = rows_around(utterance, row, layout.left, layout.right);
    Values dq = {};
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      const Values k = Values::load(qkv + layout.part(key, head, 1), layout.head_size);
      const Values v = Values::load(qkv + layout.part(key, head, 2), layout.head_size);
      const float probability = __expf(head_bias.added_to(q.dot(k), row, key) - log_weights);
      const float d_score = probability * (gradient.dot(v) - product);
      dq.add(d_score, k);
      head_bias.store_gradient(row, key, d_score);
    }
    dq.scale(layout.scale);
    dq.store(dqkv + layout.part(row, head, 0), layout.head_size);
  });
}

// dk and dv of each key: from all queries that see it, in their order.
template <int kValues, class T>
__global__ void key_gradient_kernel(const T* qkv, Bias<T> bias, const float* logsumexp, const T* dy,
                                    T* dqkv, const float* delta, Layout layout) {
  for_each_row_and_head(layout, [&](int64_t row, int64_t head) {
    using Values = Head<kValues>;
    const Values k = Values::load(qkv + layout.part(row, head, 1), layout.head_size);
    const Values v = Values::load(qkv + layout.part(row, head, 2), layout.head_size);
    const Utterance utterance = utterance_of(layout.pack, row);
    const auto head_bias = HeadBias<T>::of(bias, layout, utterance, head);
    const Rows queries = rows_around(utterance, row, layout.right, layout.left);
    Values dk = {};
    Values dv = {};
    for (int64_t query = queries.begin; query < queries.end; ++query) {
      Values q = Values::load(qkv + layout.part(query, head, 0), layout.head_size);
      q.scale(layout.scale);
      const Values gradient = Values::load(dy + layout.of_row(query, head), layout.head_size);
      const int64_t at = layout.statistic(query, head);
      const float probability = __expf(head_bias.added_to(q.dot(k), query, row) - logsumexp[at]);
      dv.add(probability, gradient);
      dk.add(probability * (gradient.dot(v) - delta[at]), q);
    }
    dk.store(dqkv + layout.part(row, head, 1), layout.head_size);
    dv.store(dqkv + layout.part(row, head, 2), layout.head_size);
  });
}

Layout layout_of(const CudaAttentionTask& task) {
  return {.pack = task.pack,
          .num_heads = task.num_heads,
          .head_size = static_cast<int>(task.head_size),
          .left = task.left,
          .right = task.right,
          .scale = 1.0f / sqrtf(static_cast<float>(task.head_size))};
}

LaunchShape shape_for(const CudaAttentionTask& task) {
  return launch_shape(task.pack.num_frames * task.num_heads * kWarp);
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
  with_cuda_type(task.qkv.type, [&](auto zero) {
    with_values(task.head_size, [&](auto values) {
      using T = decltype(zero);
      constexpr int kValues = decltype(values)::value;
      forward_kernel<kValues, T>
          <<<shape_for(task).blocks, kWarpsABlock * kWarp, 0, static_cast<cudaStream_t>(stream)>>>(
              static_cast<const T*>(task.qkv.data),
              Bias<T>{static_cast<const T*>(task.bias.data), nullptr}, static_cast<T*>(task.y.data),
              task.logsumexp, layout_of(task));
    });
  });
  check_launch("attention forward");
}

void attention_backward_cuda(const CudaAttentionTask& task, const CudaAttentionGradients& gradients,
                             void* stream) {
  with_cuda_type(task.qkv.type, [&](auto zero) {
    with_values(task.head_size, [&](auto values) {
      using T = decltype(zero);
      constexpr int kValues = decltype(values)::value;
      const auto* qkv = static_cast<const T*>(task.qkv.data);
      const auto* dy = static_cast<const T*>(gradients.dy.data);
      auto* dqkv = static_cast<T*>(gradients.dqkv.data);
      const Bias<T> bias{static_cast<const T*>(task.bias.data),
                         static_cast<T*>(gradients.d_bias.data)};
      const unsigned blocks = shape_for(task).blocks;
      auto* on = static_cast<cudaStream_t>(stream);
      query_gradient_kernel<kValues, T><<<blocks, kWarpsABlock * kWarp, 0, on>>>(
          qkv, bias, static_cast<const T*>(task.y.data), task.logsumexp, dy, dqkv, gradients.delta,
          layout_of(task));
      key_gradient_kernel<kValues, T><<<blocks, kWarpsABlock * kWarp, 0, on>>>(
          qkv, bias, task.logsumexp, dy, dqkv, gradients.delta, layout_of(task));
    });
  });
  check_launch("attention backward");
}

}  // namespace sotto::kernels::detail
