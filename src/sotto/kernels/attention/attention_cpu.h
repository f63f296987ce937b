// The CPU versions of attention as called by attention.cpp, and their common parts: visibility of
// keys, and partitioning of the work among the cores. Internal to the kernel.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/attention/attention_shape.h"

namespace sotto::kernels::detail {

// A head of an utterance with some of its queries and keys: the unit of work of one core.
struct Piece {
  int64_t utterance;
  int64_t head;
  Span queries;
  Span keys;
};

// Pieces with their costs in multiply-adds. Cores get consecutive pieces of about equal total cost;
// the assignment of a piece to a core does not affect its result.
class Work {
 public:
  void add(const Piece& piece, int64_t cost) {
    pieces_.push_back(piece);
    ends_.push_back(total() + std::max<int64_t>(1, cost));
  }

  int64_t total() const { return ends_.empty() ? 0 : ends_.back(); }

  // Returns the largest cost assigned to one of `num_cores`.
  int64_t largest_share(int64_t num_cores) const {
    const int64_t share = (total() + num_cores - 1) / num_cores;
    int64_t largest = 0;
    for (int64_t begin = 0; begin < total(); begin += share) {
      const auto [first, last] = pieces_in(begin, std::min(total(), begin + share));
      if (first < last) largest = std::max(largest, end_of(last - 1) - begin_of(first));
    }
    return largest;
  }

  // Calls body(first, last) for ranges of consecutive pieces, on all cores.
  template <class Body>
  void run(Body body) const {
    // About ten microseconds of work: less is not worth waking a thread.
    constexpr int64_t kCostPerTask = 256 * 1024;
    at::parallel_for(0, total(), kCostPerTask, [&](int64_t begin, int64_t end) {
      const auto [first, last] = pieces_in(begin, end);
      if (first < last) body(pieces_.data() + first, pieces_.data() + last);
    });
  }

 private:
  int64_t begin_of(int64_t piece) const { return piece == 0 ? 0 : end_of(piece - 1); }
  int64_t end_of(int64_t piece) const { return ends_[static_cast<size_t>(piece)]; }

  // Returns the pieces whose cost range begins in [begin, end).
  std::pair<int64_t, int64_t> pieces_in(int64_t begin, int64_t end) const {
    const auto first_beginning_at = [&](int64_t cost) {
      if (cost == 0) return int64_t{0};
      return std::min<int64_t>(
          std::lower_bound(ends_.begin(), ends_.end(), cost) - ends_.begin() + 1,
          static_cast<int64_t>(ends_.size()));
    };
    return {first_beginning_at(begin), first_beginning_at(end)};
  }

  std::vector<Piece> pieces_;
  std::vector<int64_t> ends_;  // cumulative costs
};

void attention_forward_cpu(const AttentionOperands& in, const AttentionShape& shape,
                           const Attention::Result& result);

struct AttentionGradient {
  AttentionOperands out;
  const at::Tensor& delta;   // workspace [H, N] fp32: sum over a head of dy y
  const at::Tensor& dq_sum;  // workspace [N, D] fp32; undefined if q is fp32
  // Workspace for the sums of each utterance with relative positions, fp32: attention_cpu.cpp. Zero
  // before. Undefined without positions.
  const at::Tensor& position_sums;
  const at::Tensor& bias_sums;
};
void attention_backward_cpu(const AttentionBackward& in, const AttentionShape& shape,
                            const AttentionGradient& gradient);

// `scores`: workspace [H, T, T] fp32 for the longest utterance.
void attention_plain_forward_cpu(const at::Tensor& qkv, const AttentionShape& shape,
                                 const Attention::Result& result, const at::Tensor& scores);
void attention_plain_backward_cpu(const Attention::BackwardInputs& in, const AttentionShape& shape,
                                  const at::Tensor& dqkv, const at::Tensor& scores);

}  // namespace sotto::kernels::detail
