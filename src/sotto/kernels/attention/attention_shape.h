// Arguments and shapes of a call of attention. Internal to the kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/base/packing.h"

namespace sotto::kernels::detail {

// A range of frames of one utterance, counted from its first.
struct Span {
  int64_t begin;
  int64_t end;

  int64_t size() const { return end - begin; }
};

// The columns of q, k or v, or of a gradient, in each row of a pack: D columns of a tensor, with
// adjacent heads.
struct HeadColumns {
  const at::Tensor& rows;
  int64_t first_column;
};

// q [N, D], k and v [M, D], or their gradients, in any tensor.
struct AttentionOperands {
  HeadColumns q;
  HeadColumns k;
  HeadColumns v;
};

// Operands of self-attention in one tensor [N, 3 D], and of cross-attention in two, [N, D] and [M,
// 2 D].
inline AttentionOperands operands_of(const at::Tensor& qkv) {
  const int64_t width = qkv.size(1) / 3;
  return {.q = {qkv, 0}, .k = {qkv, width}, .v = {qkv, 2 * width}};
}
inline AttentionOperands operands_of(const at::Tensor& q, const at::Tensor& kv) {
  return {.q = {q, 0}, .k = {kv, 0}, .v = {kv, q.size(1)}};
}

// Inputs of backward.
struct AttentionBackward {
  const at::Tensor& dy;  // [N, D]
  AttentionOperands in;
  const at::Tensor& y;        // [N, D]
  const at::Tensor& softmax;  // the logsumexp computed by forward
};

// Shape and options of a call, with the window as two numbers.
struct AttentionShape {
  const Packing& queries;
  const Packing& keys;  // the same utterances; in self-attention the same pack
  int64_t num_heads;
  int64_t head_size;
  int64_t left;
  int64_t right;
  const Attention::Relative* relative = nullptr;  // null: scores without positions

  int64_t width() const { return num_heads * head_size; }
  int64_t num_utterances() const { return queries.num_utterances(); }
  int64_t num_queries_of(int64_t utterance) const {
    return queries.lengths()[static_cast<size_t>(utterance)];
  }
  int64_t num_keys_of(int64_t utterance) const {
    return keys.lengths()[static_cast<size_t>(utterance)];
  }
  // Row offsets of an utterance in the two packs.
  int64_t first_query_of(int64_t utterance) const {
    return queries.starts()[static_cast<size_t>(utterance)];
  }
  int64_t first_key_of(int64_t utterance) const {
    return keys.starts()[static_cast<size_t>(utterance)];
  }
  // The maximum number of queries or keys of any utterance.
  int64_t max_length() const { return std::max(queries.max_length(), keys.max_length()); }

  // Rows of the table of positions: the one that an utterance begins with, whose distance is the
  // largest of this utterance, and the number that the utterances before it use.
  int64_t num_positions() const { return relative->positions.size(0); }
  int64_t first_position_of(int64_t utterance) const {
    return (num_positions() + 1) / 2 - num_queries_of(utterance);
  }
  static int64_t num_positions_of_length(int64_t length) { return 2 * length - 1; }
  int64_t positions_before(int64_t utterance) const {
    return 2 * first_query_of(utterance) - utterance;
  }

  // Returns the number of scores of the preceding utterances, one row per query: the offset of this
  // utterance's scores.
  int64_t scores_before(int64_t utterance) const {
    int64_t count = 0;
    for (int64_t u = 0; u < utterance; ++u) count += num_heads * num_queries_of(u) * num_keys_of(u);
    return count;
  }
  int64_t num_scores() const { return scores_before(num_utterances()); }
  // Returns whether there is an utterance in which a query does not see all keys.
  bool has_window() const { return std::min(left, right) < max_length() - 1; }

  // Returns the number of pairs of a query and a key that it sees.
  int64_t num_pairs() const {
    int64_t pairs = 0;
    for (int64_t u = 0; u < num_utterances(); ++u) {
      const int64_t length = num_queries_of(u);
      pairs += has_window()
                   ? length + pairs_on_one_side(length, left) + pairs_on_one_side(length, right)
                   : length * num_keys_of(u);
    }
    return pairs;
  }
  // Returns the number of pairs of self-attention with the key at most `reach` frames to one side
  // of the query.
  static int64_t pairs_on_one_side(int64_t length, int64_t reach) {
    const int64_t most = std::min(reach, length - 1);
    return most * length - most * (most + 1) / 2;
  }

  // Return the keys that at least one of the queries sees, and the queries that see at least one of
  // the keys, limited to those of the utterance.
  Span keys_seen_by(const Span& some, int64_t num_keys) const {
    return {std::max<int64_t>(0, some.begin - left), std::min(num_keys, some.end + right)};
  }
  Span queries_that_see(const Span& some, int64_t num_queries) const {
    return {std::max<int64_t>(0, some.begin - right), std::min(num_queries, some.end + left)};
  }
  bool all_see_all(const Span& some_queries, const Span& some_keys) const {
    return some_keys.begin >= some_queries.end - 1 - left &&
           some_keys.end - 1 <= some_queries.begin + right;
  }
};

}  // namespace sotto::kernels::detail
