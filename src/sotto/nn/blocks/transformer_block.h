// A transformer block on a pack, with norms before its two parts (pre-norm) or after them
// (post-norm). N frames, D width, H hidden width.
//
//   pre-norm    m = x + drop(Wo attention(norm1(x)))     y = m + drop(W2 act(W1 norm2(m)))
//   post-norm   m = x + drop(Wo attention(x)), n = norm1(m)     y = norm2(n + drop(W2 act(W1 n)))
//
// A pre-norm block may attend to another pack between its two parts (cross_attention.h). The slots
// that each tier keeps are listed in transformer_block.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/nn/blocks/cross_attention.h"
#include "sotto/nn/context.h"
#include "sotto/nn/decoding_step.h"
#include "sotto/nn/layers/activation.h"
#include "sotto/nn/layers/linear.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct TransformerBlockOptions {
  int64_t width = 256;
  int64_t hidden = 1024;
  kernels::Attention::Options attention = {.num_heads = 4};
  // Dropout on the results of both parts.
  double dropout = 0.1;
  double activation_dropout = 0.1;
  Activation activation = Activation::kGelu;
  NormKind norm = NormKind::kLayer;
  // 0: the default of the kind.
  double norm_epsilon = 0.0;
  bool norm_first = true;
  // Width of the rows of another pack that it attends to; 0: none.
  int64_t seen_width = 0;
  // Initial output projections of both parts are scaled by 1 / sqrt(2 layers), so that the sum over
  // all layers does not grow with their number.
  int64_t num_layers = 1;
  // Standard deviation of all initial matrices; 0: derived from their inputs and the number of
  // layers.
  double deviation = 0.0;
  // Keys have a bias, as queries and values do.
  bool has_key_bias = true;
};

class TransformerBlock {
 public:
  using Options = TransformerBlockOptions;

  TransformerBlock(ParameterStore& store, const std::string& name,
                   const TransformerBlockOptions& options);

  // Returns y [N, D] for x [N, D].
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const;

  // Returns dx [N, D] for dy [N, D]; accumulates into the parameters' gradients and closes the
  // layer's tape.
  at::Tensor backward(at::Tensor dy, const Context& context, Tape& tape) const;

  // For decoding, with norms first and cross-attention: the cache of up to `num_rows` tokens that
  // see an encoder's result [M, E], and y [H, D] for one token x [H, D] of each hypothesis.
  BlockCache make_cache(int64_t num_rows, const at::Tensor& seen) const;
  at::Tensor step(const at::Tensor& x, const BlockCache& cache, const DecodingStep& step) const;

 private:
  using Tensors = LayerTape::Tensors;

  // Each computes a slot from earlier ones: shared by forward and recomputation.
  const at::Tensor& attention_input(LayerTape& tape) const;                 // [N, D]
  const at::Tensor& qkv(LayerTape& tape) const;                             // [N, 3 D]
  const Tensors& attention(const Context& context, LayerTape& tape) const;  // y, softmax
  const at::Tensor& middle(const Context& context, LayerTape& tape) const;  // [N, D]
  // The residual input of the feed-forward part: the middle, or the result of cross-attention on
  // it.
  const at::Tensor& crossed(const Context& context, LayerTape& tape) const;     // [N, D]
  const Tensors& normed_middle(const Context& context, LayerTape& tape) const;  // y, statistics
  const at::Tensor& hidden(const Context& context, LayerTape& tape) const;      // [N, H]
  const at::Tensor& activated(const Context& context, LayerTape& tape) const;   // [N, H]
  at::Tensor sum(const Context& context, LayerTape& tape) const;                // [N, D]

  // Dropout of the activation, in forward and in backward.
  kernels::Dropped activation_dropout(const Context& context) const;

  // Return the gradient of the part's input [N, D] for that of its result; `normed` is the input of
  // the feed-forward part with its norm's statistics, of which y is freed.
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
