// What a call of attention is about. Internal to the kernel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sotto/kernels/packing.h"

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

  int64_t width() const { return num_heads * head_size; }
  int64_t length_of(int64_t utterance) const {
    return packing.lengths()[static_cast<size_t>(utterance)];
  }
  int64_t start_of(int64_t utterance) const {
    return packing.starts()[static_cast<size_t>(utterance)];
  }

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
