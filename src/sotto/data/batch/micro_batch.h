// What one forward sees: some utterances of a step, packed, on the device of the step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/data/batch/example.h"
#include "sotto/device/staging_buffer.h"
#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/base/packing.h"

namespace sotto::data {

struct MicroBatch {
  // Utterances one behind the other: samples fp32 [S], stored features fp32 [N, F], or tokens int32
  // [N].
  at::Tensor values;
  // Of samples or of frames; keyed by the place in the manifest.
  kernels::Packing packing;
  kernels::Labels labels;
};

// The examples at `places`, packed in that order, each segment as an utterance of its own. On Meta
// a dry one, for which values are not read. To a GPU they travel through `staging`, beside the
// host's work.
MicroBatch make_micro_batch(std::span<const Example> examples, std::span<const int64_t> places,
                            const at::Device& device, device::StagingBuffer& staging);

}  // namespace sotto::data
