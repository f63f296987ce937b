// How the states of one utterance lie in the workspace of Ctc, and what its device versions are
// told of it. T frames, L labels.
//
// A frame has L + 1 states for the blanks before, between and behind the labels, and L for the
// labels: a row. Of the forward pass only every K-th row stays, K = sqrt(T), and the backward pass
// computes the K rows behind it again when it gets there: 2 sqrt(T) rows instead of T for one more
// forward pass.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

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
  constexpr int64_t row_size() const { return 2 * width; }
  constexpr int64_t alpha(int64_t frame) const { return frame % num_kept_together * row_size(); }
  constexpr int64_t checkpoint(int64_t frame) const {
    return (num_kept_together + frame / num_kept_together) * row_size();
  }
  constexpr int64_t beta() const { return (num_kept_together + num_checkpoints) * row_size(); }
  // Probabilities of the labels in the frame at hand. Must follow the row of beta: reading that at
  // a distance of one ends in here.
  constexpr int64_t emission() const { return beta() + row_size(); }
  // Exponents: 1 where a label may follow the one before it without a blank between. Mantissas: the
  // share of a label in the frame at hand, at its first place.
  constexpr int64_t skip() const { return emission() + width; }
  constexpr int64_t share() const { return skip(); }
  // Exponents: the first place of the same label. Mantissas: its probability as one plain float.
  constexpr int64_t first() const { return skip() + width; }
  constexpr int64_t probability() const { return first(); }
  // A second row of beta for the CUDA version, which keeps emissions in registers.
  constexpr int64_t second_beta() const { return emission(); }
  // Of the CUDA version. Exponents: the places of the labels, those of equal ones together and in
  // order. Mantissas, by their bits: where in that order each kind of label begins, and its end.
  constexpr int64_t order() const { return first(); }
  constexpr int64_t kinds() const { return first(); }
  constexpr int64_t size() const { return first() + width; }
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

// The problem of a pack on the device.
struct CudaCtc {
  // What a block may have in shared memory on every GPU without being asked: a bit for each entry
  // of the vocabulary has to fit.
  static constexpr int64_t kMaxSharedBytes = 48 * 1024;
  static constexpr int64_t kMaxVocabulary = 8 * kMaxSharedBytes;

  CudaArray logits;                 // [N, V], become the gradient where one is wanted
  const int32_t* labels = nullptr;  // of the pack
  float* loss = nullptr;            // [B]
  float* softmax = nullptr;         // [N, 2]
  float* mantissas = nullptr;
  int32_t* exponents = nullptr;
  const CtcUtterance* utterances = nullptr;  // [B], the one with most work first
  int64_t num_utterances = 0;
  int64_t max_labels = 0;  // of an utterance
  int64_t blank = 0;
  bool with_gradient = false;
};

}  // namespace sotto::kernels
