#include "sotto/nn/fronts/spec_mask.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "sotto/kernels/elementwise/frame_mask.h"
#include "sotto/nn/fronts/hidden_spans.h"

namespace sotto::nn {

namespace {

using kernels::FrameMask;

// Draws spans with distinct starts; none where the axis is shorter than a span.
std::vector<Span> draw_spans(const SpanOptions& options, int64_t size, const RandomStream& stream) {
  const int64_t last = size - options.length;
  if (options.probability == 0.0 || last < 0) return {};
  const double expected =
      options.probability * static_cast<double>(size) / static_cast<double>(options.length);
  // Stochastic rounding, so that the expectation holds.
  auto num_spans = static_cast<int64_t>(expected + static_cast<double>(stream.uniform(0)));
  num_spans = std::max(num_spans, options.min_spans);
  num_spans = std::min({num_spans, size / options.length, last + 1});
  const std::vector<int64_t> starts = stream.permutation(last + 1);
  std::vector<Span> spans;
  for (int64_t i = 0; i < num_spans; ++i)
    spans.push_back({.start = starts[static_cast<size_t>(i)], .length = options.length});
  return spans;
}

// Returns the masked rows of the pack, int32 [R].
at::Tensor rows_of(const SpecMaskOptions& options, const Context& context) {
  return hidden_rows(context, [&](const RandomStream& stream, int64_t length) {
    return draw_spans(options.frames, length, stream);
  });
}

// Returns bytes [B, D], nonzero where an utterance's feature is masked.
at::Tensor features_of(const SpecMaskOptions& options, const Context& context) {
  return hidden_features(context, options.width, [&](const RandomStream& stream, int64_t width) {
    return draw_spans(options.features, width, stream);
  });
}

}  // namespace

SpecMask::SpecMask(ParameterStore& store, const std::string& name, const SpecMaskOptions& options)
    : options_(options),
      value_(options.has_value()
                 ? &store.declare({.name = name, .shape = {options.width}, .deviation = 0.5})
                 : nullptr) {}

void SpecMask::apply_zeros(at::Tensor& features, const Context& context,
                           const SpecMaskOptions& options) {
  if (!context.step.is_training) return;
  if (options.masks_frames()) FrameMask::zero_rows(features, rows_of(options, context));
  if (options.masks_features())
    FrameMask::zero_columns(features, context.packing, features_of(options, context));
}

void SpecMask::apply(at::Tensor& x, const Context& context) const {
  if (!context.step.is_training) return;
  if (options_.masks_frames()) FrameMask::fill_rows(x, rows_of(options_, context), value_->value);
  if (options_.masks_features())
    FrameMask::zero_columns(x, context.packing, features_of(options_, context));
}

void SpecMask::backward(at::Tensor& dy, const Context& context) const {
  if (options_.masks_features())
    FrameMask::zero_columns(dy, context.packing, features_of(options_, context));
  if (!options_.masks_frames()) return;
  const at::Tensor rows = rows_of(options_, context);
  if (value_->spec.trains) FrameMask::accumulate(value_->gradient, dy, rows);
  FrameMask::zero_rows(dy, rows);
}

}  // namespace sotto::nn
