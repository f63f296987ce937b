#include "sotto/nn/spec_mask.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "sotto/device/memory_scope.h"
#include "sotto/kernels/frame_mask.h"

namespace sotto::nn {

namespace {

using kernels::FrameMask;

// Which of an utterance's masks a stream is for.
enum Axis : uint64_t { kFrames = 0, kFeatures = 1 };

RandomStream stream_for(const Context& context, Axis axis, const UtteranceKey& utterance) {
  return RandomStream({.seed = context.step.seed,
                       .purpose = Purpose::kAugmentation,
                       .step = context.step.step,
                       .layer = static_cast<uint64_t>(axis)},
                      utterance);
}

// A few kilobytes, which the driver takes before the call returns.
at::Tensor to_device(void* values, at::IntArrayRef sizes, at::ScalarType type, at::Tensor& room) {
  at::Tensor result = room.narrow(0, 0, sizes.front());
  if (!result.is_meta() && sizes.front() > 0)
    result.copy_(at::from_blob(values, sizes, type), /*non_blocking=*/true);
  return result;
}

}  // namespace

std::vector<int64_t> draw_spans(const SpanOptions& options, int64_t size,
                                const RandomStream& stream) {
  const int64_t last = size - options.length;
  if (options.probability == 0.0 || last < 0) return {};
  const double expected =
      options.probability * static_cast<double>(size) / static_cast<double>(options.length);
  // Rounded up or down by chance, so that the expectation holds.
  auto num_spans = static_cast<int64_t>(expected + static_cast<double>(stream.uniform(0)));
  num_spans = std::max(num_spans, options.min_spans);
  num_spans = std::min({num_spans, size / options.length, last + 1});
  std::vector<int64_t> starts = stream.permutation(last + 1);
  starts.resize(static_cast<size_t>(num_spans));
  return starts;
}

SpecMask::SpecMask(ParameterStore& store, const std::string& name, const SpecMaskOptions& options)
    : options_(options),
      value_(options.has_value()
                 ? &store.declare({.name = name, .shape = {options.width}, .deviation = 0.5})
                 : nullptr) {}

void SpecMask::apply(at::Tensor& x, const Context& context) const {
  if (!context.step.is_training) return;
  if (options_.masks_frames()) FrameMask::fill_rows(x, hidden_rows(context), value_->value);
  if (options_.masks_features())
    FrameMask::zero_columns(x, context.packing, hidden_features(context));
}

void SpecMask::backward(at::Tensor& dy, const Context& context) const {
  if (options_.masks_features())
    FrameMask::zero_columns(dy, context.packing, hidden_features(context));
  if (!options_.masks_frames()) return;
  const at::Tensor rows = hidden_rows(context);
  if (value_->spec.trains) FrameMask::accumulate(value_->gradient, dy, rows);
  FrameMask::zero_rows(dy, rows);
}

at::Tensor SpecMask::hidden_rows(const Context& context) const {
  const kernels::Packing& packing = context.packing;
  std::vector<int32_t> rows;
  for (size_t u = 0; u < packing.lengths().size(); ++u) {
    const int64_t length = packing.lengths()[u];
    std::vector<bool> is_hidden(static_cast<size_t>(length), false);
    const RandomStream stream = stream_for(context, kFrames, packing.keys()[u]);
    for (const int64_t start : draw_spans(options_.frames, length, stream)) {
      std::fill_n(is_hidden.begin() + start, options_.frames.length, true);
    }
    for (int64_t frame = 0; frame < length; ++frame) {
      if (is_hidden[static_cast<size_t>(frame)])
        rows.push_back(static_cast<int32_t>(packing.starts()[u] + frame));
    }
  }
  const device::CategoryScope category(device::Category::kData);
  // Room for all frames: how many are hidden is a matter of chance, the bytes are not.
  at::Tensor room = at::empty({packing.num_frames()}, packing.device_starts().options());
  return to_device(rows.data(), {std::ssize(rows)}, at::kInt, room);
}

at::Tensor SpecMask::hidden_features(const Context& context) const {
  const kernels::Packing& packing = context.packing;
  std::vector<uint8_t> is_hidden(static_cast<size_t>(packing.num_utterances() * options_.width),
                                 uint8_t{0});
  for (size_t u = 0; u < packing.lengths().size(); ++u) {
    const RandomStream stream = stream_for(context, kFeatures, packing.keys()[u]);
    const auto first = is_hidden.begin() + static_cast<int64_t>(u) * options_.width;
    for (const int64_t start : draw_spans(options_.features, options_.width, stream))
      std::fill_n(first + start, options_.features.length, uint8_t{1});
  }
  const device::CategoryScope category(device::Category::kData);
  at::Tensor room = at::empty({packing.num_utterances(), options_.width},
                              packing.device_starts().options().dtype(at::kByte));
  return to_device(is_hidden.data(), {packing.num_utterances(), options_.width}, at::kByte, room);
}

}  // namespace sotto::nn
