// Layout of the states of one utterance in the workspace of Ctc, and the arguments of its device
// versions. T frames, L labels.
//
// A frame has L + 1 states for the blanks before, between and after the labels, and L for the
// labels: a row. Of the forward pass only every K-th row is kept, K = sqrt(T), and the backward
// pass recomputes the K rows after it when it gets there: 2 sqrt(T) rows instead of T for one more
// forward pass.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

// Offsets into two arrays of the same layout, fp32 mantissas and int32 exponents.
struct CtcLattice {
  static constexpr int64_t kLanes = 8;

  int64_t num_frames = 0;
  int64_t num_labels = 0;
  // States of one kind in a row, rounded up so that at least one is unused and stays zero.
  int64_t width = 0;
  int64_t num_kept_together = 1;  // K
  int64_t num_checkpoints = 0;

  CtcLattice(int64_t frames, int64_t labels, bool with_gradient);

  // Blanks first, followed by labels.
  constexpr int64_t row_size() const { return 2 * width; }
  constexpr int64_t alpha(int64_t frame) const { return frame % num_kept_together * row_size(); }
  constexpr int64_t checkpoint(int64_t frame) const {
    return (num_kept_together + frame / num_kept_together) * row_size();
  }
  constexpr int64_t beta() const { return (num_kept_together + num_checkpoints) * row_size(); }
  // Probabilities of the labels in the current frame. Must follow the row of beta: reading beta at
  // an offset of one ends here.
  constexpr int64_t emission() const { return beta() + row_size(); }
  // Exponents: 1 if a label may follow the previous one without a blank in between. Mantissas: the
  // share of a label in the current frame, at its first position.
  constexpr int64_t skip() const { return emission() + width; }
  constexpr int64_t share() const { return skip(); }
  // Exponents: the first position of the same label. Mantissas: its probability as a plain float.
  constexpr int64_t first() const { return skip() + width; }
  constexpr int64_t probability() const { return first(); }
  // A second row of beta for the CUDA version, which keeps emissions in registers.
  constexpr int64_t second_beta() const { return emission(); }
  // For the CUDA version. Exponents: the positions of the labels, equal ones adjacent and in order.
  // Mantissas, as raw bits: the start of each distinct label in that order, and the end.
  constexpr int64_t order() const { return first(); }
  constexpr int64_t kinds() const { return first(); }
  constexpr int64_t size() const { return first() + width; }
};

struct CtcUtterance {
  CtcLattice lattice;
  int64_t index;        // index in the pack
  int64_t first_frame;  // in the pack
  int64_t first_label;  // in the labels of the pack
  int64_t offset;       // of its lattice in the workspace
  float weight;
  bool is_feasible;
};

// The problem of a pack on the device.
struct CudaCtc {
  // Shared memory of a block that every GPU provides by default: a bit for each entry of the
  // vocabulary has to fit.
  static constexpr int64_t kMaxSharedBytes = 48 * 1024;
  static constexpr int64_t kMaxVocabulary = 8 * kMaxSharedBytes;

  CudaArray logits;                 // [N, V], replaced by the gradient if requested
  const int32_t* labels = nullptr;  // of the pack
  float* loss = nullptr;            // [B]
  float* softmax = nullptr;         // [N, 2]
  float* mantissas = nullptr;
  int32_t* exponents = nullptr;
  const CtcUtterance* utterances = nullptr;  // [B], sorted by decreasing work
  int64_t num_utterances = 0;
  int64_t max_labels = 0;  // maximum per utterance
  int64_t blank = 0;
  bool with_gradient = false;
};

}  // namespace sotto::kernels
