// Spans of frames and of features that are masked in training, as input of the kernel FrameMask.
// They are drawn on the host from counters keyed by seed, step and utterance. N frames, B
// utterances, D width, R masked frames.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "sotto/nn/context.h"

namespace sotto::nn {

struct Span {
  int64_t start = 0;
  int64_t length = 0;
};

// Draws the spans of an utterance on an axis of `size` positions; they may overlap. The stream is
// keyed by the utterance, the step and the axis.
using DrawSpans = std::function<std::vector<Span>(const RandomStream& stream, int64_t size)>;

// Returns the rows of the context's pack that are covered by spans of frames, int32 [R], without
// duplicates.
at::Tensor hidden_rows(const Context& context, const DrawSpans& draw);

// Returns bytes [B, D], nonzero where an utterance's feature is covered by a span of features.
at::Tensor hidden_features(const Context& context, int64_t width, const DrawSpans& draw);

}  // namespace sotto::nn
