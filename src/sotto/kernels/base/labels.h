// The labels of a micro-batch: those of its utterances concatenated, corresponding to the Packing
// of their frames. Lengths and values are also kept on the host: whether a loss can align an
// utterance, and whether a label is in the vocabulary, is decided there without synchronizing with
// the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace sotto::kernels {

class Labels {
 public:
  // `utterances`: the labels of each, in the order of the pack; an utterance may have none.
  Labels(const std::vector<std::vector<int32_t>>& utterances, const at::Device& device);

  int64_t num_utterances() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t num_labels() const { return starts_.back(); }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  // Cumulative lengths from 0: utterance u has the labels starts[u] .. starts[u + 1].
  const std::vector<int64_t>& starts() const { return starts_; }
  // Returns the labels of one utterance.
  std::span<const int32_t> of(int64_t utterance) const;
  // All labels on the device, int32 [labels].
  const at::Tensor& device_values() const { return device_values_; }

 private:
  std::vector<int64_t> lengths_;
  std::vector<int64_t> starts_;
  std::vector<int32_t> values_;
  at::Tensor device_values_;
};

}  // namespace sotto::kernels
