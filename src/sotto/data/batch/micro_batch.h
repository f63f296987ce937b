// What one forward sees: some utterances of a step, packed, on the device of the step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sotto/data/batch/example.h"
#include "sotto/device/staging_buffer.h"
#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/base/packing.h"

namespace sotto::data {

// The tokens around the labels of an utterance that a decoder sees and says.
struct DecoderTokens {
  int32_t start = 0;
  int32_t end = 0;
};

// The pack of a decoder: at each place the token it sees, and the one it is to say next.
struct DecoderPack {
  kernels::Labels inputs;  // start, labels
  kernels::Labels next;    // labels, end
  kernels::Packing packing;
};

struct MicroBatch {
  // Utterances concatenated along one axis: samples fp32 [S], stored features fp32 [N, F], or
  // tokens int32 [N].
  at::Tensor values;
  // Of samples or of frames; keyed by the place in the manifest.
  kernels::Packing packing;
  kernels::Labels labels;
  // For a network with a decoder.
  std::optional<DecoderPack> decoder = std::nullopt;
};

struct MicroBatchOptions {
  at::Device device = at::kCPU;
  std::optional<DecoderTokens> decoder = std::nullopt;
};

// The examples at `places`, packed in that order, each segment as an utterance of its own. On Meta
// a dry one, for which values are not read. To a GPU they travel through `staging`, beside the
// host's work.
MicroBatch make_micro_batch(std::span<const Example> examples, std::span<const int64_t> places,
                            device::StagingBuffer& staging, const MicroBatchOptions& options);

}  // namespace sotto::data
