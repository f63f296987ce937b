// How the states of one utterance lie in the workspace of Ctc, and what the device versions are
// given. T frames, L labels.
//
// A frame has L + 1 states for the blanks before, between and behind the labels, and L for the
// labels: a row. Of the forward pass only every K-th row stays, K = sqrt(T), and the backward pass
// computes the K rows behind it again when it gets there: 2 sqrt(T) rows instead of T for one more
// forward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sotto::kernels {

// Places in two arrays of the same layout, fp32 mantissas and int32 exponents.
struct CtcLattice {
  static constexpr int64_t kLanes = 8;

  int64_t num_frames = 0;
  int64_t num_labels = 0;
  // States of a kind in a row, rounded up so that at least one is unused: it stays zero.
  int64_t width = 0;
  int64_t num_kept_together = 1;  // K
  int64_t num_checkpoints = 0;

  CtcLattice(int64_t frames, int64_t labels, bool with_gradient);

  // Blanks first, labels behind them.
  int64_t row_size() const { return 2 * width; }
  int64_t alpha(int64_t frame) const { return frame % num_kept_together * row_size(); }
  int64_t checkpoint(int64_t frame) const {
    return (num_kept_together + frame / num_kept_together) * row_size();
  }
  int64_t beta() const { return (num_kept_together + num_checkpoints) * row_size(); }
  // Probabilities of the labels in the frame at hand. Must follow the row of beta: reading that at
  // a distance of one ends in here.
  int64_t emission() const { return beta() + row_size(); }
  // Exponents: 1 where a label may follow the one before it without a blank between. Mantissas: the
  // share of a label in the frame at hand, at its first place.
  int64_t skip() const { return emission() + width; }
  int64_t share() const { return skip(); }
  // Exponents: the first place of the same label. Mantissas: its probability as one plain float.
  int64_t first() const { return skip() + width; }
  int64_t probability() const { return first(); }
  int64_t size() const { return first() + width; }
};

struct CtcUtterance {
  CtcLattice lattice;
  int64_t place;        // in the pack
  int64_t first_frame;  // in the pack
  int64_t first_label;  // in the labels of the pack
  int64_t offset;       // of its lattice in the workspace
  float weight;
  bool is_feasible;
};

struct CtcProblem {
  const at::Tensor& logits;  // [N, V]
  const at::Tensor& labels;  // int32
  const at::Tensor& loss;    // [B]
  int64_t blank;
  bool with_gradient;  // over the logits
  at::Tensor softmax;  // [N, 2]: the largest logit; one over the sum of exp(logit - largest)
  at::Tensor mantissas;
  at::Tensor exponents;
  std::vector<CtcUtterance> utterances;  // the one with most work first
};

}  // namespace sotto::kernels
