// The part of a Conformer block that mixes neighbouring frames. N frames, D width.
//
//   y = x + drop(W2 silu(inner norm(depthwise(glu(W1 norm(x))))))
//
// Its slots are on the tape of the block, and it is recomputed like the block's other parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

#include "sotto/nn/blocks/block_part.h"
#include "sotto/nn/context.h"
#include "sotto/nn/layers/inner_norm.h"
#include "sotto/nn/layers/linear.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct ConvolutionModuleOptions {
  int64_t width = 256;
  // Number of frames that the depthwise convolution sees; odd.
  int64_t kernel = 31;
  InnerNormKind inner_norm = InnerNormKind::kLayer;
  // Groups of channels, if the inner norm is a group norm.
  int64_t num_groups = 1;
  double dropout = 0.1;
  NormKind norm = NormKind::kLayer;
  // Added to the variance in both norms; 0: the default of the kind.
  double norm_epsilon = 0.0;
  // Biases in the products and the depthwise convolution.
  bool has_biases = true;
  // Standard deviations of the initial matrices, and of the output projection; 0: derived from the
  // number of inputs.
  double deviation = 0.0;
  double result_deviation = 0.0;
  // Its first slot on the block's tape, and the index of its dropout mask in the layer.
  size_t first_slot = 0;
  int64_t dropout_index = 0;
};

class ConvolutionModule {
 public:
  static constexpr std::array<SlotSpec, 8> kSlots = {{
      {.name = "convolution norm", .dropped_from = Tier::kNorms},
      {.name = "convolution expanded", .dropped_from = Tier::kQkv},
      {.name = "convolution gated", .dropped_from = Tier::kNorms},
      {.name = "convolution depthwise", .dropped_from = Tier::kQkv},
      // A batch norm's two vectors are kept by every tier, since computing them stages them for the
      // running averages.
      {.name = "convolution statistics"},
      {.name = "convolution inner norm", .dropped_from = Tier::kNorms},
      {.name = "convolution activated", .dropped_from = Tier::kNorms},
      {.name = "convolved", .dropped_from = Tier::kBlock},
  }};

  ConvolutionModule(ParameterStore& store, const std::string& name,
                    const ConvolutionModuleOptions& options);

  // Returns y [N, D], from its slot or computed.
  const at::Tensor& result(const PartInput& x, const Context& context, LayerTape& tape) const;
  // Called after the last use of y in forward, and in backward.
  void settle(LayerTape& tape) const { tape.settle(slot(kResult)); }
  void release(LayerTape& tape) const { tape.release(slot(kResult)); }

  // Returns dx [N, D] for dy [N, D]; accumulates into the parameters' gradients.
  at::Tensor backward(const at::Tensor& dy, const PartInput& x, const Context& context,
                      LayerTape& tape) const;

 private:
  enum Slot : size_t {
    kNorm,
    kExpanded,
    kGated,
    kDepthwise,
    kStatistics,
    kInnerNorm,
    kActivated,
    kResult
  };
  size_t slot(Slot own) const { return options_.first_slot + own; }

  const LayerTape::Tensors& normed(const PartInput& x, LayerTape& tape) const;  // y, statistics
  const at::Tensor& expanded(const PartInput& x, LayerTape& tape) const;        // [N, 2 D]
  const at::Tensor& gated(const PartInput& x, LayerTape& tape) const;           // [N, D]
  const at::Tensor& depthwise(const PartInput& x, const Context& context,
                              LayerTape& tape) const;  // [N, D]
  const LayerTape::Tensors& inner_normed(const PartInput& x, const Context& context,
                                         LayerTape& tape) const;  // y, statistics
  const at::Tensor& activated(const PartInput& x, const Context& context,
                              LayerTape& tape) const;  // [N, D]

  // Returns the gradient of the gated frames for that of the activated ones, which it overwrites.
  at::Tensor depthwise_backward(at::Tensor d_activated, const PartInput& x, const Context& context,
                                LayerTape& tape) const;

  ConvolutionModuleOptions options_;
  Norm norm_;
  Linear expand_;
  // Owned by the store.
  Parameter& depthwise_weight_;  // [D, K]
  Parameter* depthwise_bias_;    // [D]; null: none
  InnerNorm inner_norm_;
  Linear project_;
};

}  // namespace sotto::nn
