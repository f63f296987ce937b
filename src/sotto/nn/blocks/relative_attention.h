// The part of a Conformer block that attends to its own pack with relative positions. N rows, D
// width, P rows of the table of positions.
//
//   y = x + drop(Wo attention(Wqkv norm(x), Wp table, u, v))
//
// Its slots are on the tape of the block, and it is recomputed like the block's other parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

#include "sotto/kernels/attention/attention.h"
#include "sotto/nn/blocks/block_part.h"
#include "sotto/nn/context.h"
#include "sotto/nn/layers/linear.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct RelativeAttentionOptions {
  int64_t width = 256;
  // Heads and window; relative positions have no plain variant.
  kernels::Attention::Options attention = {.num_heads = 4};
  // Dropout of the result.
  double dropout = 0.1;
  // Dropout of probabilities; 0 is the only value that is supported.
  double attention_dropout = 0.0;
  NormKind norm = NormKind::kLayer;
  // 0: the default of the kind.
  double norm_epsilon = 0.0;
  // Biases in the products; u and v are always there.
  bool has_biases = true;
  // Standard deviations of the initial matrices, and of the output projection; 0: derived from the
  // number of inputs.
  double deviation = 0.0;
  double result_deviation = 0.0;
  // Its first slot on the block's tape, and the index of its dropout mask in the layer.
  size_t first_slot = 0;
  int64_t dropout_index = 0;
};

class RelativeAttention {
 public:
  static constexpr std::array<SlotSpec, 5> kSlots = {{
      {.name = "attention norm", .dropped_from = Tier::kNorms},
      {.name = "relative qkv", .dropped_from = Tier::kQkv},
      {.name = "relative positions", .dropped_from = Tier::kQkv},
      {.name = "relative attention", .dropped_from = Tier::kBlock},
      {.name = "attended", .dropped_from = Tier::kBlock},
  }};

  // Throws ConfigError for options that attention with relative positions does not support.
  RelativeAttention(ParameterStore& store, const std::string& name,
                    const RelativeAttentionOptions& options);

  // Returns y [N, D], from its slot or computed; the context has the table of positions.
  const at::Tensor& result(const PartInput& x, const Context& context, LayerTape& tape) const;
  // Called after the last use of y in forward, and in backward.
  void settle(LayerTape& tape) const { tape.settle(slot(kResult)); }
  void release(LayerTape& tape) const { tape.release(slot(kResult)); }

  // Returns dx [N, D] for dy [N, D]; accumulates into the gradients of the parameters.
  at::Tensor backward(const at::Tensor& dy, const PartInput& x, const Context& context,
                      LayerTape& tape) const;

 private:
  enum Slot : size_t { kNorm, kQkv, kPositions, kAttention, kResult };
  size_t slot(Slot own) const { return options_.first_slot + own; }

  const LayerTape::Tensors& normed(const PartInput& x, LayerTape& tape) const;
  const at::Tensor& qkv(const PartInput& x, LayerTape& tape) const;            // [N, 3 D]
  const at::Tensor& positions(const Context& context, LayerTape& tape) const;  // [P, D]
  const LayerTape::Tensors& attention(const PartInput& x, const Context& context,
                                      LayerTape& tape) const;  // y, softmax
  // Returns the gradient of the attention's qkv [N, 3 D]; accumulates into those of u, v and Wp.
  at::Tensor attention_backward(const at::Tensor& dy, const PartInput& x, const Context& context,
                                LayerTape& tape) const;

  RelativeAttentionOptions options_;
  Norm norm_;
  Linear qkv_;
  // Owned by the store.
  Parameter& position_;       // Wp [D, D]
  Parameter& content_bias_;   // u [D]
  Parameter& position_bias_;  // v [D]
  Linear out_;
};

}  // namespace sotto::nn
