// The loss of connectionist temporal classification (Graves et al. 2006) on a pack. N frames of B
// utterances, V entries of the vocabulary; an utterance has T frames and L labels.
//
// The gradient is formed in forward and takes the place of the logits, so forward receives what the
// sum of losses weighs each utterance by. Log-softmax is inside, in fp32; the probabilities of a
// pack are never held, only a frame's at its labels.
//
// Allocates: loss. As workspace fp32 [N, 2] for the softmax of each frame; and 8 bytes for each
// state of an utterance in about 2 sqrt(T) of its T frames (evaluate: in four), between which
// states are computed again; and some 100 bytes for each utterance. The bytes follow from the
// lengths of frames and labels alone.
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
    // [B] fp32, the negative log-likelihood of each utterance's labels: not weighted, 0 where
    // infeasible, NaN where a logit of the utterance is NaN or infinite.
    at::Tensor loss;
    // Places in the pack of the utterances that have too few frames for their labels.
    std::vector<int64_t> infeasible;
  };

  // The losses; logits [N, V] become the gradient of the sum of weights[u] * loss[u] over them, 0
  // in the frames of infeasible utterances and NaN in those whose loss is. Throws DataError for a
  // label that is the blank or not of the vocabulary.
  static Result forward(at::Tensor& logits, const Targets& targets, std::span<const float> weights);

  // The losses alone, bit for bit those of forward; logits [N, V] stay as they are.
  static Result evaluate(const at::Tensor& logits, const Targets& targets);

  // Whether some alignment exists: a frame for each label, and one for the blank that must stand
  // between two equal ones.
  static bool is_feasible(int64_t num_frames, std::span<const int32_t> labels);
};

}  // namespace sotto::kernels
