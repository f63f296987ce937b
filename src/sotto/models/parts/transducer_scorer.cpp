#include "sotto/models/parts/transducer_scorer.h"

#include <ATen/ATen.h>

#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/elementwise/embedding.h"
#include "sotto/kernels/elementwise/residual_add.h"

namespace sotto::models {

namespace {

using kernels::Embedding;
using kernels::ResidualAdd;

// Returns row numbers on the device, int32.
at::Tensor rows_on(const at::Device& device, std::vector<int32_t> rows) {
  return kernels::Labels({std::move(rows)}, device).device_values();
}

}  // namespace

TransducerScorer::TransducerScorer(const nn::TransducerHead& head, const at::Tensor& encoded,
                                   const kernels::Packing& packing)
    : LatticeScorer(packing.lengths(), static_cast<int32_t>(head.options().prediction.blank),
                    head.options().durations),
      head_(head),
      frames_(head.project_frames(encoded)),
      starts_(packing.starts()) {}

void TransducerScorer::begin(int64_t num_memories) {
  memories_ = head_.prediction().make_state(num_memories, frames_.device());
  labels_ = at::empty({num_memories, frames_.size(1)}, frames_.options());
  append({{{.from = 0, .label = blank(), .to = 0}}});
}

at::Tensor TransducerScorer::score(std::span<const Node> nodes) {
  std::vector<int32_t> frames;
  std::vector<int32_t> memories;
  for (const Node& node : nodes) {
    frames.push_back(
        static_cast<int32_t>(starts_[static_cast<size_t>(node.utterance)] + node.frame));
    memories.push_back(static_cast<int32_t>(node.memory));
  }
  const at::Device device = frames_.device();
  at::Tensor sums = Embedding::forward(rows_on(device, std::move(frames)), frames_);  // [H, J]
  ResidualAdd::accumulate(sums, Embedding::forward(rows_on(device, std::move(memories)), labels_));
  return head_.logits(sums);
}

void TransducerScorer::append(std::span<const Append> labels) {
  std::vector<int32_t> tokens, from, to;
  for (const Append& one : labels) {
    tokens.push_back(one.label);
    from.push_back(static_cast<int32_t>(one.from));
    to.push_back(static_cast<int32_t>(one.to));
  }
  const at::Device device = frames_.device();
  const at::Tensor written = rows_on(device, std::move(to));
  const at::Tensor predicted =
      head_.prediction().step({.tokens = rows_on(device, std::move(tokens)),
                               .from = rows_on(device, std::move(from)),
                               .to = written},
                              memories_);
  labels_.index_copy_(0, written.to(at::kLong), head_.project_labels(predicted));
}

}  // namespace sotto::models
