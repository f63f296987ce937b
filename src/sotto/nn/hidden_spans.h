// Spans of frames and of features that are hidden in training, as the kernel FrameMask takes them.
// They are drawn on the host from counters, by seed, step and utterance. N frames, B utterances, D
// width, R hidden frames.
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

// The spans of an utterance on an axis of `size` places; they may overlap. The stream is that of
// the utterance, the step and the axis.
using DrawSpans = std::function<std::vector<Span>(const RandomStream& stream, int64_t size)>;

// Rows of the context's pack under spans of frames, int32 [R], each once.
at::Tensor hidden_rows(const Context& context, const DrawSpans& draw);

// Bytes [B, D], not 0 where an utterance's feature is under a span of features.
at::Tensor hidden_features(const Context& context, int64_t width, const DrawSpans& draw);

}  // namespace sotto::nn
