// The input of one forward: some utterances of a step, packed, on the device of the step.
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

// The tokens that a decoder uses around the labels of an utterance.
struct DecoderTokens {
  int32_t start = 0;
  int32_t end = 0;
  // Number of first labels of every utterance that are not its text: a search is given them.
  int64_t num_prompt = 0;
  // Whether the end counts as a label where a reduction divides by the number of labels.
  bool counts_end = false;
};

// The pack of a decoder: for each position its input token, and the token to predict.
struct DecoderPack {
  kernels::Labels inputs;  // start, labels
  kernels::Labels next;    // labels, end
  kernels::Packing packing;
};

struct MicroBatch {
  // Utterances concatenated along one axis: samples fp32 [S], stored features fp32 [N, F], or
  // tokens int32 [N].
  at::Tensor values;
  // Packing of samples or of frames; keyed by the index in the manifest.
  kernels::Packing packing;
  kernels::Labels labels;
  // Set for a network with a decoder.
  std::optional<DecoderPack> decoder = std::nullopt;
};

struct MicroBatchOptions {
  at::Device device = at::kCPU;
  std::optional<DecoderTokens> decoder = std::nullopt;
};

// Packs the examples at `indices` in that order, each segment as a separate utterance. On Meta it
// creates a dry micro-batch, for which values are not read. For a GPU they are copied through
// `staging`, concurrently with the host's work.
MicroBatch make_micro_batch(std::span<const Example> examples, std::span<const int64_t> indices,
                            device::StagingBuffer& staging, const MicroBatchOptions& options);

}  // namespace sotto::data
