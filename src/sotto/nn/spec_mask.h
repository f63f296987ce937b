// Spans of frames and of features that the encoder does not see in training (SpecAugment on its
// input), as Hugging Face's wav2vec2 draws them, but from counters: by seed, step and utterance. N
// frames, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/nn/context.h"
#include "sotto/nn/parameters.h"

namespace sotto::nn {

// Spans on an axis of `size` places.
struct SpanOptions {
  // Expected share of the axis that spans begin in, times their length; they may overlap.
  double probability = 0.0;
  int64_t length = 10;
  // Spans at least.
  int64_t min_spans = 0;
};

struct SpecMaskOptions {
  int64_t width = 768;
  SpanOptions frames = {.probability = 0.05, .length = 10, .min_spans = 2};
  SpanOptions features = {};
  // Off: nothing is hidden, but the parameter is there, as in Hugging Face's files.
  bool is_on = true;

  bool has_value() const { return frames.probability > 0.0 || features.probability > 0.0; }
  bool masks_frames() const { return is_on && frames.probability > 0.0; }
  bool masks_features() const { return is_on && features.probability > 0.0; }
};

class SpecMask {
 public:
  // What stands in the place of hidden frames is learned.
  SpecMask(ParameterStore& store, const std::string& name, const SpecMaskOptions& options);

  // x [N, D] with what the context's step hides; nothing outside of training.
  void apply(at::Tensor& x, const Context& context) const;

  // dy [N, D] becomes the gradient of x; adds to the parameter's gradient.
  void backward(at::Tensor& dy, const Context& context) const;

 private:
  // Rows of the pack that are hidden, int32 [R].
  at::Tensor rows_of(const Context& context) const;
  // Bytes [B, D], not 0 where an utterance's feature is hidden.
  at::Tensor features_of(const Context& context) const;

  SpecMaskOptions options_;
  Parameter* value_;  // [D]; null where nothing is ever hidden
};

}  // namespace sotto::nn
