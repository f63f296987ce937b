// SpecAugment (Park et al. 2019, arXiv:1904.08779) on normalised features: in training some bands
// of frames and of features are set to 0, which is their mean. There is no time warping. Random
// numbers come from counters keyed by seed, step and utterance. N frames, F features.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/core/config/options.h"
#include "sotto/nn/context.h"

namespace sotto::nn {

struct SpecAugmentOptions {
  // Bands of features per utterance; 0: none.
  int64_t frequency_masks = 0;
  // Maximum width of such a band, in features; each width is drawn from 0 to this.
  int64_t frequency_width = 27;
  // Bands of frames per utterance; 0: none.
  int64_t time_masks = 0;
  // Maximum width of such a band, in frames, and as a fraction of the utterance: the smaller
  // applies.
  int64_t time_width = 100;
  double time_share = 1.0;

  void visit(OptionVisitor& visitor);
};

struct SpecAugment {
  // Masks features [N, F] for the context's step; does nothing outside of training. Features have
  // no gradient, so there is no backward.
  static void apply(at::Tensor& features, const Context& context,
                    const SpecAugmentOptions& options);
};

}  // namespace sotto::nn
