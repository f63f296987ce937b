// A Conformer block on a pack (Gulati et al. 2020): attention with relative positions and a
// convolution module between two half steps of feed-forward, then a norm. N frames, D width, H
// hidden width.
//
//   a = x + 1/2 ffn1(x)     b = a + attention(a)     c = b + convolution(b)
//   y = norm(c + 1/2 ffn2(c))
//
// Each part begins with its own norm. Its slots are listed in the part's header.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "sotto/nn/blocks/convolution_module.h"
#include "sotto/nn/blocks/feed_forward.h"
#include "sotto/nn/blocks/relative_attention.h"
#include "sotto/nn/context.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct ConformerBlockOptions {
  int64_t width = 256;
  int64_t hidden = 1024;
  kernels::Attention::Options attention = {.num_heads = 4};
  // Frames that the depthwise convolution sees; odd.
  int64_t kernel = 31;
  InnerNormKind inner_norm = InnerNormKind::kLayer;
  // Biases of all products and of the convolution; those of norms and of relative positions are
  // always there.
  bool has_biases = true;
  // Dropout on the result of each part, and inside the feed-forward parts.
  double dropout = 0.1;
  double activation_dropout = 0.1;
  // Initial output projections of all parts are scaled by 1 / sqrt(4 layers), so that the sum over
  // all layers does not grow with their number.
  int64_t num_layers = 1;
};

class ConformerBlock {
 public:
  using Options = ConformerBlockOptions;

  ConformerBlock(ParameterStore& store, const std::string& name, const Options& options);

  // Returns y [N, D] for x [N, D]; the context has the table of relative positions.
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const;

  // Returns dx [N, D] for dy [N, D]; accumulates into the parameters' gradients and closes the
  // layer's tape.
  at::Tensor backward(at::Tensor dy, const Context& context, Tape& tape) const;

 private:
  // The results of the parts, from their slots or computed.
  const at::Tensor& fed_first(const Context& context, LayerTape& tape) const;
  const at::Tensor& attended(const Context& context, LayerTape& tape) const;
  const at::Tensor& convolved(const Context& context, LayerTape& tape) const;
  const at::Tensor& fed_last(const Context& context, LayerTape& tape) const;

  FeedForward ffn1_;
  RelativeAttention attention_;
  ConvolutionModule convolution_;
  FeedForward ffn2_;
  Norm norm_;
};

}  // namespace sotto::nn
