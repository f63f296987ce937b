// The LatticeScorer of a network with a transducer head. A memory is what the prediction network
// carries after some labels, and its projection for the joint network. N frames of the pack, R
// memories, J width of the joint network.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "sotto/kernels/base/packing.h"
#include "sotto/models/lattice_scorer.h"
#include "sotto/nn/heads/transducer_head.h"

namespace sotto::models {

class TransducerScorer : public LatticeScorer {
 public:
  // `encoded` [N, D]: the encoder's result for the pack. The head must outlive this object.
  TransducerScorer(const nn::TransducerHead& head, const at::Tensor& encoded,
                   const kernels::Packing& packing);

  bool is_dry() const override { return frames_.is_meta(); }
  void begin(int64_t num_memories) override;
  at::Tensor score(std::span<const Node> nodes) override;
  void append(std::span<const Append> labels) override;

 private:
  const nn::TransducerHead& head_;
  at::Tensor frames_;            // [N, J]
  std::vector<int64_t> starts_;  // first row of each utterance in it
  nn::PredictionNetwork::State memories_;
  at::Tensor labels_;  // [R, J]
};

}  // namespace sotto::models
