// What a call of attention is about. Internal to the kernel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/base/packing.h"

namespace sotto::kernels::detail {

// Frames of one utterance, counted from its first.
struct Span {
  int64_t begin;
  int64_t end;

  int64_t size() const { return end - begin; }
};

// What a call is about, with the window as two numbers.
struct AttentionShape {
  const Packing& packing;
  int64_t num_heads;
  int64_t head_size;
  int64_t left;
  int64_t right;
  const Attention::Bias* bias = nullptr;  // absent: nothing is added to the scores

  int64_t width() const { return num_heads * head_size; }
  int64_t length_of(int64_t utterance) const {
    return packing.lengths()[static_cast<size_t>(utterance)];
  }
  int64_t start_of(int64_t utterance) const {
    return packing.starts()[static_cast<size_t>(utterance)];
  }

  // Null where it is not wanted.
  const at::Tensor* bias_gradient() const { return bias == nullptr ? nullptr : bias->gradient; }

  // Scores of the utterances before this one, [H, T_u, T_u] each: where its own begin among all.
  int64_t scores_before(int64_t utterance) const {
    int64_t count = 0;
    for (int64_t u = 0; u < utterance; ++u) count += num_heads * length_of(u) * length_of(u);
    return count;
  }
  // Whether there is an utterance in which a query does not see all keys.
  bool has_window() const { return std::min(left, right) < packing.max_length() - 1; }

  // Keys that at least one of the queries sees, and queries that see at least one of the keys.
  Span keys_of(const Span& queries, int64_t length) const {
    return {std::max<int64_t>(0, queries.begin - left), std::min(length, queries.end + right)};
  }
  Span queries_of(const Span& keys, int64_t length) const {
    return {std::max<int64_t>(0, keys.begin - right), std::min(length, keys.end + left)};
  }
  bool all_see_all(const Span& queries, const Span& keys) const {
    return keys.begin >= queries.end - 1 - left && keys.end - 1 <= queries.begin + right;
  }
};

}  // namespace sotto::kernels::detail
