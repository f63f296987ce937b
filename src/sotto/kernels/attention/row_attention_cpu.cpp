// Attention of single queries on the CPU: keys in tiles whose scores are on the stack, with a
// running maximum.
#include <cmath>
#include <limits>

#include "sotto/kernels/attention/row_attention.h"
#include "sotto/kernels/attention/row_attention_task.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

constexpr int64_t kScoresPerTile = 64;

// One head of one query, and the rows that it sees.
template <class T>
class RowHead {
 public:
  RowHead(const RowAttentionTask& task, int64_t query, int64_t head)
      : q_(static_cast<const T*>(task.q) + query * task.q_stride + head * task.head_size),
        k_(static_cast<const T*>(task.kv) + head * task.head_size),
        task_(task),
        first_(task.ranges[2 * query]),
        count_(task.ranges[2 * query + 1]) {}

  int64_t count() const { return count_; }

  float score(int64_t index) const {
    const T* key = k_ + row(index) * task_.kv_stride;
    return task_.scale * simd::sum_of_blocks(task_.head_size, [&](int64_t i, auto n) {
             return simd::masked(simd::load(q_ + i, n) * simd::load(key + i, n), n);
           });
  }

  // sums [head size] += weight * value
  void add_value(int64_t index, float weight, float* sums) const {
    const T* value = k_ + row(index) * task_.kv_stride + task_.width();
    simd::for_each_block(task_.head_size, [&](int64_t i, auto n) {
      simd::store(sums + i, simd::load(sums + i, n) + simd::load(value + i, n) * weight, n);
    });
  }

 private:
  int64_t row(int64_t index) const {
    return task_.listed == nullptr ? first_ + index : int64_t{task_.listed[first_ + index]};
  }

  const T* q_;
  const T* k_;
  const RowAttentionTask& task_;
  int64_t first_;
  int64_t count_;
};

template <class T>
void attend(const RowHead<T>& head, int64_t head_size, T* y) {
  float sums[RowAttention::kMaxHeadSize] = {};
  float largest = -std::numeric_limits<float>::infinity();
  float total = 0.0f;
  for (int64_t begin = 0; begin < head.count(); begin += kScoresPerTile) {
    const int64_t count = std::min(kScoresPerTile, head.count() - begin);
    float scores[kScoresPerTile];
    float largest_here = largest;
    for (int64_t i = 0; i < count; ++i) {
      scores[i] = head.score(begin + i);
      largest_here = std::max(largest_here, scores[i]);
    }
    const float rescale = std::exp(largest - largest_here);
    largest = largest_here;
    total *= rescale;
    simd::for_each_block(head_size, [&](int64_t i, auto n) {
      simd::store(sums + i, simd::load(sums + i, n) * rescale, n);
    });
    for (int64_t i = 0; i < count; ++i) {
      const float weight = std::exp(scores[i] - largest);
      total += weight;
      head.add_value(begin + i, weight, sums);
    }
  }
  const float scale = total > 0.0f ? 1.0f / total : 0.0f;
  simd::for_each_block(head_size, [&](int64_t i, auto n) {
    simd::store(y + i, simd::load(sums + i, n) * scale, n);
  });
}

template <class T>
void add_head_weights(const RowHead<T>& head, float factor, float* weights) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < head.count(); ++i) largest = std::max(largest, head.score(i));
  float total = 0.0f;
  for (int64_t i = 0; i < head.count(); ++i) total += std::exp(head.score(i) - largest);
  for (int64_t i = 0; i < head.count(); ++i)
    weights[i] += factor * std::exp(head.score(i) - largest) / total;
}

}  // namespace

void row_attention_cpu(const RowAttentionTask& task, const at::Tensor& y) {
  with_element_type(y, [&](auto zero) {
    using T = decltype(zero);
    T* to = y.mutable_data_ptr<T>();
    at::parallel_for(0, task.num_queries * task.num_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t query = item / task.num_heads;
        const int64_t head = item % task.num_heads;
        attend(RowHead<T>(task, query, head), task.head_size,
               to + query * task.width() + head * task.head_size);
      }
    });
  });
}

void row_attention_weights_cpu(const RowAttentionTask& task, const at::Tensor& q, float factor,
                               const at::Tensor& weights) {
  with_element_type(q, [&](auto zero) {
    using T = decltype(zero);
    float* to = weights.mutable_data_ptr<float>();
    at::parallel_for(0, task.num_queries, 1, [&](int64_t begin, int64_t end) {
      for (int64_t query = begin; query < end; ++query) {
        for (int64_t head = 0; head < task.num_heads; ++head) {
          add_head_weights(RowHead<T>(task, query, head),
                           factor / static_cast<float>(task.num_heads),
                           to + query * weights.size(1));
        }
      }
    });
  });
}

}  // namespace sotto::kernels::detail
