// Masks spans of frames and of features of the encoder's input in training (SpecAugment), drawn as
// in Hugging Face's wav2vec2, but from counters keyed by seed, step and utterance. N frames, D
// width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/nn/context.h"
#include "sotto/nn/parameters.h"

namespace sotto::nn {

// Spans on an axis of `size` positions.
struct SpanOptions {
  // Expected fraction of the axis covered by spans, not counting overlap.
  double probability = 0.0;
  int64_t length = 10;
  // Minimum number of spans.
  int64_t min_spans = 0;
};

struct SpecMaskOptions {
  int64_t width = 768;
  SpanOptions frames = {.probability = 0.05, .length = 10, .min_spans = 2};
  SpanOptions features = {};
  // False: nothing is masked, but the parameter exists, as in Hugging Face's files.
  bool is_on = true;

  bool has_value() const { return frames.probability > 0.0 || features.probability > 0.0; }
  bool masks_frames() const { return is_on && frames.probability > 0.0; }
  bool masks_features() const { return is_on && features.probability > 0.0; }
};

class SpecMask {
 public:
  // The value that replaces masked frames is learned.
  SpecMask(ParameterStore& store, const std::string& name, const SpecMaskOptions& options);

  // Sets the frames and features that are masked to 0 where no value is learned for them: in
  // features [N, D], which have no gradient.
  static void apply_zeros(at::Tensor& features, const Context& context,
                          const SpecMaskOptions& options);

  // Masks x [N, D] for the context's step; does nothing outside of training.
  void apply(at::Tensor& x, const Context& context) const;

  // Overwrites dy [N, D] with the gradient of x; accumulates into the parameter's gradient.
  void backward(at::Tensor& dy, const Context& context) const;

 private:
  SpecMaskOptions options_;
  Parameter* value_;  // [D]; null where nothing is ever masked
};

}  // namespace sotto::nn
