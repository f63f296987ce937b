// The loss of connectionist temporal classification (Graves et al. 2006) on a pack. N frames of B
// utterances, V entries of the vocabulary; an utterance has T frames and L labels.
//
// The gradient is computed in forward and replaces the logits, so forward receives the weight of
// each utterance in the sum of losses. Log-softmax is included, in fp32; the probabilities of a
// pack are never stored, only those of a frame at its labels.
//
// Allocates: loss. As workspace fp32 [N, 2] for the softmax of each frame; 8 bytes for each state
// of an utterance in about 2 sqrt(T) of its T frames (evaluate: in four), between which states are
// recomputed; and some 100 bytes for each utterance. The bytes depend only on the lengths of frames
// and labels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct Ctc {
  struct Targets {
    const Packing& packing;
    const Labels& labels;
    int64_t blank = 0;
  };

  struct Result {
    // [B] fp32, the negative log-likelihood of each utterance's labels: not weighted, 0 if
    // infeasible, NaN if a logit of the utterance is NaN or infinite.
    at::Tensor loss;
    // Indices in the pack of the utterances that have too few frames for their labels.
    std::vector<int64_t> infeasible;
  };

  // Returns the losses; logits [N, V] are replaced by the gradient of the sum of weights[u] *
  // loss[u], 0 in the frames of infeasible utterances and NaN in those of utterances whose loss is
  // NaN. Throws DataError for a label that is the blank or not in the vocabulary.
  static Result forward(at::Tensor& logits, const Targets& targets, std::span<const float> weights);

  // Returns only the losses, bitwise equal to those of forward; logits [N, V] are unchanged.
  static Result evaluate(const at::Tensor& logits, const Targets& targets);

  // Returns whether an alignment exists: it needs a frame for each label, and one for the blank
  // between two equal labels.
  static bool is_feasible(int64_t num_frames, std::span<const int32_t> labels);
};

}  // namespace sotto::kernels
