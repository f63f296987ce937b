#include "sotto/nn/fronts/hidden_spans.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "sotto/device/memory_scope.h"

namespace sotto::nn {

namespace {

using kernels::Packing;

// Selects which of an utterance's masks a stream is for.
enum Axis : uint64_t { kFrames = 0, kFeatures = 1 };

RandomStream stream_for(const Context& context, Axis axis, const UtteranceKey& utterance) {
  return RandomStream({.seed = context.step.seed,
                       .purpose = Purpose::kAugmentation,
                       .step = context.step.step,
                       .layer = static_cast<uint64_t>(axis)},
                      utterance);
}

// A few kilobytes, which the driver copies before the call returns.
at::Tensor to_device(void* values, at::IntArrayRef sizes, at::ScalarType type, at::Tensor& room) {
  at::Tensor result = room.narrow(0, 0, sizes.front());
  if (!result.is_meta() && sizes.front() > 0)
    result.copy_(at::from_blob(values, sizes, type), /*non_blocking=*/true);
  return result;
}

}  // namespace

at::Tensor hidden_rows(const Context& context, const DrawSpans& draw) {
  const Packing& packing = context.packing;
  // Allocates space for all frames: the number of masked frames is random, the bytes must not be.
  const device::CategoryScope category(device::Category::kData);
  at::Tensor room = at::empty({packing.num_frames()}, packing.device_starts().options());
  // A dry run draws nothing: it would take a tenth of the time of a plan search.
  if (room.is_meta()) return room;
  std::vector<int32_t> rows;
  for (size_t u = 0; u < packing.lengths().size(); ++u) {
    const int64_t length = packing.lengths()[u];
    std::vector<bool> is_hidden(static_cast<size_t>(length), false);
    for (const Span& span : draw(stream_for(context, kFrames, packing.keys()[u]), length))
      std::fill_n(is_hidden.begin() + span.start, span.length, true);
    for (int64_t frame = 0; frame < length; ++frame) {
      if (is_hidden[static_cast<size_t>(frame)])
        rows.push_back(static_cast<int32_t>(packing.starts()[u] + frame));
    }
  }
  return to_device(rows.data(), {std::ssize(rows)}, at::kInt, room);
}

at::Tensor hidden_features(const Context& context, int64_t width, const DrawSpans& draw) {
  const Packing& packing = context.packing;
  std::vector<uint8_t> is_hidden(static_cast<size_t>(packing.num_utterances() * width), uint8_t{0});
  for (size_t u = 0; u < packing.lengths().size(); ++u) {
    const auto first = is_hidden.begin() + static_cast<int64_t>(u) * width;
    for (const Span& span : draw(stream_for(context, kFeatures, packing.keys()[u]), width))
      std::fill_n(first + span.start, span.length, uint8_t{1});
  }
  const device::CategoryScope category(device::Category::kData);
  at::Tensor room = at::empty({packing.num_utterances(), width},
                              packing.device_starts().options().dtype(at::kByte));
  return to_device(is_hidden.data(), {packing.num_utterances(), width}, at::kByte, room);
}

}  // namespace sotto::nn
