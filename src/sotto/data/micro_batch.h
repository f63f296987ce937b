// What one forward sees: some utterances of a step, packed, on the device of the step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/data/dataset.h"
#include "sotto/device/staging_buffer.h"
#include "sotto/kernels/labels.h"
#include "sotto/kernels/packing.h"

namespace sotto::data {

struct MicroBatch {
  // Utterances one behind the other: samples fp32 [S], stored features fp32 [N, F], or tokens int32
  // [N].
  at::Tensor values;
  // Of samples or of frames; keyed by the place in the manifest.
  kernels::Packing packing;
  kernels::Labels labels;
};

// Of an example in a pack: its segments there.
inline size_t num_segments(const Example& example) {
  return example.segments.empty() ? 1 : example.segments.size();
}

// The examples at `places`, packed in that order, each segment as an utterance of its own. On Meta
// a dry one, for which values are not read. To a GPU they travel through `staging`, beside the
// host's work.
MicroBatch make_micro_batch(std::span<const Example> examples, std::span<const int64_t> places,
                            const at::Device& device, device::StagingBuffer& staging);

// An example without values, for dry runs: what they allocate follows from the sizes alone.
Example make_dry_example(int64_t rows, int64_t feature_dim, int64_t num_labels);
// The same of a row of text, in one segment.
Example make_dry_text(int64_t num_tokens);

}  // namespace sotto::data
