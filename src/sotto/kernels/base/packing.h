// A micro-batch's layout: utterances concatenated along one axis of frames, without padding.
// Lengths are kept on the host, so that no kernel has to query the device; their cumulative sum is
// on the device for kernels that need it there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/core/rng.h"

namespace sotto::kernels {

class Packing {
 public:
  // `lengths`: frames of each utterance, at least one. `keys`: keys of their random draws; if
  // empty, the index in the pack is used.
  Packing(std::vector<int64_t> lengths, const at::Device& device,
          std::vector<UtteranceKey> keys = {});

  int64_t num_utterances() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t num_frames() const { return starts_.back(); }
  int64_t max_length() const { return max_length_; }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  // Cumulative lengths from 0: utterance u has the rows starts[u] .. starts[u + 1].
  const std::vector<int64_t>& starts() const { return starts_; }
  const std::vector<UtteranceKey>& keys() const { return keys_; }
  // The cumulative lengths on the device, int32 [utterances + 1].
  const at::Tensor& device_starts() const { return device_starts_; }
  // The keys on the device, folded to 64 bits each, int64 [utterances].
  const at::Tensor& device_keys() const { return device_keys_; }

  // Returns the utterance that holds row `frame`.
  int64_t utterance_of(int64_t frame) const;

 private:
  std::vector<int64_t> lengths_;
  std::vector<int64_t> starts_;
  std::vector<UtteranceKey> keys_;
  int64_t max_length_ = 0;
  at::Tensor device_starts_;
  at::Tensor device_keys_;
};

}  // namespace sotto::kernels
