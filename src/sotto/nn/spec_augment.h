// SpecAugment (Park et al. 2019, arXiv:1904.08779) on normalised features: in training some bands
// of frames and of features become 0, which is their mean. Time is not warped. Drawn from counters,
// by seed, step and utterance. N frames, F features.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/core/config/options.h"
#include "sotto/nn/context.h"

namespace sotto::nn {

struct SpecAugmentOptions {
  // Bands of features in each utterance; 0: none.
  int64_t frequency_masks = 0;
  // Widest of them, in features; the width of each is drawn from 0 to this.
  int64_t frequency_width = 27;
  // Bands of frames in each utterance; 0: none.
  int64_t time_masks = 0;
  // Widest of them, in frames, and as a share of the utterance: the smaller counts.
  int64_t time_width = 100;
  double time_share = 1.0;

  void visit(OptionVisitor& visitor);
};

struct SpecAugment {
  // Features [N, F] with what the context's step hides; nothing outside of training. They have no
  // gradient, so that there is no backward.
  static void apply(at::Tensor& features, const Context& context,
                    const SpecAugmentOptions& options);
};

}  // namespace sotto::nn
