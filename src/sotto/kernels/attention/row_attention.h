// Attention of single queries over chosen rows of keys: one step of a decoder over the tokens so
// far, whose keys and values are in a cache, and over the frames of an encoder, which all
// hypotheses of an utterance share without a copy of their own. Q queries, R rows of keys and
// values, D width, H heads. Arithmetic is fp32 for every type. Only for inference: no backward.
//
// Allocates y; SeenRows are allocated once and set for each step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace sotto::kernels {

// The rows that each query sees.
class SeenRows {
 public:
  // Memory for up to `max_queries` lists with up to `max_listed` rows in total; 0: ranges only.
  SeenRows(int64_t max_queries, int64_t max_listed, const at::Device& device);

  struct Range {
    int64_t first = 0;
    int64_t count = 0;
  };
  // Query i sees the rows of ranges[i].
  void set_ranges(std::span<const Range> ranges);
  // Query i sees the rows lists[i].
  void set_lists(const std::vector<std::vector<int32_t>>& lists);

  int64_t num_queries() const { return num_queries_; }
  // Number of pairs of a query and a row that it sees.
  int64_t num_pairs() const { return num_pairs_; }
  // Maximum number of rows that a query sees.
  int64_t max_count() const { return max_count_; }
  // One more than the largest row.
  int64_t end() const { return end_; }
  // int32 [Q, 2]: the first row of each query, or the place of its list, and the number of rows.
  const at::Tensor& ranges() const { return ranges_; }
  // int32: the rows of all lists; undefined where queries see ranges.
  const at::Tensor& listed() const { return has_lists_ ? listed_ : none_; }

 private:
  at::Tensor ranges_;
  at::Tensor listed_;
  at::Tensor none_;
  bool has_lists_ = false;
  int64_t num_queries_ = 0;
  int64_t num_pairs_ = 0;
  int64_t max_count_ = 0;
  int64_t end_ = 0;
};

struct RowAttention {
  // Largest head size: sums on the stack have this capacity.
  static constexpr int64_t kMaxHeadSize = 256;

  struct Inputs {
    const at::Tensor& q;   // [Q, D or more]: a row begins with its query, [H, D / H]
    const at::Tensor& kv;  // [R, 2 D]: a row holds k and v, each [H, D / H]
  };

  // Returns y [Q, D]. A query that sees no row gets zeros.
  static at::Tensor forward(const Inputs& in, const SeenRows& seen, int64_t num_heads);

  // weights [Q, M or more] fp32 += factor * the mean over the heads of the softmax, for the M rows
  // that a query sees at most.
  static void add_weights(const Inputs& in, const SeenRows& seen, int64_t num_heads, double factor,
                          at::Tensor& weights);
};

}  // namespace sotto::kernels
