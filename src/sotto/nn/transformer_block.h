// A transformer block on a pack, with the norms before its two parts (pre-norm) or behind them
// (post-norm). N frames, D width, H hidden width.
//
//   pre-norm    m = x + drop(Wo attention(norm1(x)))     y = m + drop(W2 act(W1 norm2(m)))
//   post-norm   m = x + drop(Wo attention(x)), n = norm1(m)     y = norm2(n + drop(W2 act(W1 n)))
//
// A pre-norm block may look at another pack between its two parts (cross_attention.h).
// What a tier keeps is listed at the slots in transformer_block.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/nn/activation.h"
#include "sotto/nn/context.h"
#include "sotto/nn/cross_attention.h"
#include "sotto/nn/linear.h"
#include "sotto/nn/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct TransformerBlockOptions {
  int64_t width = 256;
  int64_t hidden = 1024;
  kernels::Attention::Options attention = {.num_heads = 4};
  // Of both parts' results.
  double dropout = 0.1;
  double activation_dropout = 0.1;
  Activation activation = Activation::kGelu;
  NormKind norm = NormKind::kLayer;
  // 0: the kind's usual one.
  double norm_epsilon = 0.0;
  bool norm_first = true;
  // Width of the rows of another pack that it looks at; 0: it looks at none.
  int64_t seen_width = 0;
  // Results of both parts begin smaller by 1 / sqrt(2 layers), so that the sum over all layers does
  // not grow with their number.
  int64_t num_layers = 1;
  // All matrices begin with this deviation instead; 0: by their inputs and the number of layers.
  double deviation = 0.0;
};

class TransformerBlock {
 public:
  TransformerBlock(ParameterStore& store, const std::string& name,
                   const TransformerBlockOptions& options);

  // y [N, D] of x [N, D].
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const;

  // dx [N, D] of dy [N, D]; adds to the parameters' gradients and closes the layer's tape.
  at::Tensor backward(at::Tensor dy, const Context& context, Tape& tape) const;

 private:
  using Tensors = LayerTape::Tensors;

  // Each slot from those before it: what forward and recomputation share.
  const at::Tensor& attention_input(LayerTape& tape) const;                 // [N, D]
  const at::Tensor& qkv(LayerTape& tape) const;                             // [N, 3 D]
  const Tensors& attention(const Context& context, LayerTape& tape) const;  // y, softmax
  const at::Tensor& middle(const Context& context, LayerTape& tape) const;  // [N, D]
  // What the feed-forward part adds to: the middle, or what cross-attention made of it.
  const at::Tensor& crossed(const Context& context, LayerTape& tape) const;     // [N, D]
  const Tensors& normed_middle(const Context& context, LayerTape& tape) const;  // y, statistics
  const at::Tensor& hidden(const Context& context, LayerTape& tape) const;      // [N, H]
  const at::Tensor& activated(const Context& context, LayerTape& tape) const;   // [N, H]
  at::Tensor sum(const Context& context, LayerTape& tape) const;                // [N, D]

  // Of the activation, in forward and in backward.
  kernels::Dropped activation_dropout(const Context& context) const;

  // The gradient of the part's input [N, D] for that of its result; `normed` is the input of the
  // feed-forward part with its norm's statistics, of which y is let go.
  at::Tensor feed_forward_backward(const at::Tensor& dy, const Context& context, LayerTape& tape,
                                   Tensors& normed) const;
  at::Tensor attention_backward(const at::Tensor& dy, const Context& context,
                                LayerTape& tape) const;

  at::Tensor backward_norm_first(at::Tensor dy, const Context& context, LayerTape& tape) const;
  at::Tensor backward_norm_last(at::Tensor dy, const Context& context, LayerTape& tape) const;

  TransformerBlockOptions options_;
  Norm norm1_;
  Linear qkv_;
  Linear out_;
  Norm norm2_;
  Linear ffn1_;
  Linear ffn2_;
  std::optional<CrossAttention> cross_;
};

}  // namespace sotto::nn
