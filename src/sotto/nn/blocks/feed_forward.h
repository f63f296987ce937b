// The feed-forward part of a block, with a norm before it. N frames, D width, H hidden width.
//
//   y = x + scale * drop(W2 drop(act(W1 norm(x))))
//
// Its slots are on the tape of the block, and it is recomputed like the block's other parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

#include "sotto/nn/blocks/block_part.h"
#include "sotto/nn/context.h"
#include "sotto/nn/layers/activation.h"
#include "sotto/nn/layers/linear.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct FeedForwardOptions {
  int64_t width = 256;
  int64_t hidden = 1024;
  Activation activation = Activation::kSilu;
  // Dropout on the result, and after the activation.
  double dropout = 0.1;
  double activation_dropout = 0.1;
  // Factor of what is added to x: 0.5 for the half steps of a Conformer block.
  double scale = 1.0;
  NormKind norm = NormKind::kLayer;
  // 0: the default of the kind.
  double norm_epsilon = 0.0;
  bool has_biases = true;
  // Standard deviation of the last matrix at the start; 0: derived from the number of inputs.
  double result_deviation = 0.0;
  // Its first slot on the block's tape, and the first of its two dropout masks in the layer.
  size_t first_slot = 0;
  int64_t dropout_index = 0;
};

class FeedForward {
 public:
  static constexpr std::array<SlotSpec, 4> kSlots = {{
      {.name = "ffn norm", .dropped_from = Tier::kNorms},
      {.name = "ffn hidden", .dropped_from = Tier::kFfn},
      {.name = "ffn activated", .dropped_from = Tier::kNorms},
      {.name = "ffn result", .dropped_from = Tier::kBlock},
  }};

  FeedForward(ParameterStore& store, const std::string& name, const FeedForwardOptions& options);

  // Returns y [N, D], from its slot or computed.
  const at::Tensor& result(const PartInput& x, const Context& context, LayerTape& tape) const;
  // Called after the last use of y in forward, and in backward.
  void settle(LayerTape& tape) const { tape.settle(slot(kResult)); }
  void release(LayerTape& tape) const { tape.release(slot(kResult)); }

  // Returns dx [N, D] for dy [N, D]; accumulates into the parameters' gradients.
  at::Tensor backward(const at::Tensor& dy, const PartInput& x, const Context& context,
                      LayerTape& tape) const;

 private:
  enum Slot : size_t { kNorm, kHidden, kActivated, kResult };
  size_t slot(Slot own) const { return options_.first_slot + own; }

  const LayerTape::Tensors& normed(const PartInput& x, LayerTape& tape) const;  // y, statistics
  const at::Tensor& hidden(const PartInput& x, LayerTape& tape) const;          // [N, H]
  const at::Tensor& activated(const PartInput& x, const Context& context,
                              LayerTape& tape) const;  // [N, H]
  kernels::Dropped activation_dropout(const Context& context) const;
  kernels::Dropout::Mask result_mask(const Context& context) const;

  FeedForwardOptions options_;
  Norm norm_;
  Linear in_;
  Linear out_;
};

}  // namespace sotto::nn
