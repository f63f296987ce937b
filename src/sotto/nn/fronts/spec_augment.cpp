#include "sotto/nn/fronts/spec_augment.h"

#include <algorithm>
#include <vector>

#include "sotto/kernels/elementwise/frame_mask.h"
#include "sotto/nn/fronts/hidden_spans.h"

namespace sotto::nn {

namespace {

using kernels::FrameMask;

// Draws uniformly from 0 .. most.
int64_t draw(const RandomStream& stream, uint64_t n, int64_t most) {
  // A product of 24 bits and a count is exact in double, and below the count.
  return static_cast<int64_t>(static_cast<double>(stream.uniform(n)) *
                              static_cast<double>(most + 1));
}

std::vector<Span> draw_bands(const RandomStream& stream, int64_t count, int64_t widest,
                             int64_t size) {
  std::vector<Span> bands;
  for (int64_t band = 0; band < count; ++band) {
    const auto n = static_cast<uint64_t>(2 * band);
    const int64_t length = draw(stream, n, std::min(widest, size));
    bands.push_back({.start = draw(stream, n + 1, size - length), .length = length});
  }
  return bands;
}

}  // namespace

void SpecAugmentOptions::visit(OptionVisitor& visitor) {
  visitor.value("frequency_masks", frequency_masks, "frequency masks per utterance",
                {.min = 0, .max = 100});
  visitor.value("frequency_width", frequency_width,
                "maximum width of a frequency mask, in features", {.min = 1, .max = 4'096});
  visitor.value("time_masks", time_masks, "time masks per utterance", {.min = 0, .max = 100});
  visitor.value("time_width", time_width, "maximum width of a time mask, in frames",
                {.min = 1, .max = 1'000'000});
  visitor.value("time_share", time_share,
                "maximum width of a time mask, as a fraction of the utterance",
                {.max = 1.0, .above = 0.0});
}

void SpecAugment::apply(at::Tensor& features, const Context& context,
                        const SpecAugmentOptions& options) {
  if (!context.step.is_training) return;
  if (options.time_masks > 0) {
    const auto draw_frames = [&](const RandomStream& stream, int64_t length) {
      const auto share = static_cast<int64_t>(options.time_share * static_cast<double>(length));
      return draw_bands(stream, options.time_masks, std::min(options.time_width, share), length);
    };
    FrameMask::zero_rows(features, hidden_rows(context, draw_frames));
  }
  if (options.frequency_masks > 0) {
    const auto draw_features = [&](const RandomStream& stream, int64_t width) {
      return draw_bands(stream, options.frequency_masks, options.frequency_width, width);
    };
    FrameMask::zero_columns(features, context.packing,
                            hidden_features(context, features.size(1), draw_features));
  }
}

}  // namespace sotto::nn
