// The part of a decoder block that attends to another pack, such as an encoder's result. N rows of
// the block's own pack, M rows of the other, D width, E width of the other.
//
//   y = x + drop(Wo attention(Wq norm(x), Wkv seen))
//
// Its slots are on the tape of the block, and it is recomputed like the block's other parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>

#include "sotto/nn/blocks/block_part.h"
#include "sotto/nn/context.h"
#include "sotto/nn/decoding_step.h"
#include "sotto/nn/layers/linear.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct CrossAttentionOptions {
  int64_t width = 256;
  // Width of the rows attended to.
  int64_t seen_width = 256;
  int64_t num_heads = 4;
  double dropout = 0.1;
  NormKind norm = NormKind::kLayer;
  // 0: the default of the kind.
  double norm_epsilon = 0.0;
  // Standard deviations of the initial matrices, and of the output projection; 0: derived from the
  // number of inputs.
  double deviation = 0.0;
  double result_deviation = 0.0;
  // Its first slot on the block's tape, and the index of its dropout mask in the layer.
  size_t first_slot = 0;
  int64_t dropout_index = 0;
  // Keys have a bias, as queries and values do.
  bool has_key_bias = true;
};

class CrossAttention {
 public:
  static constexpr std::array<SlotSpec, 5> kSlots = {{
      {.name = "cross norm", .dropped_from = Tier::kNorms},
      {.name = "cross query", .dropped_from = Tier::kQkv},
      {.name = "cross keys and values", .dropped_from = Tier::kQkv},
      {.name = "cross attention", .dropped_from = Tier::kBlock},
      {.name = "crossed", .dropped_from = Tier::kBlock},
  }};

  CrossAttention(ParameterStore& store, const std::string& name,
                 const CrossAttentionOptions& options);

  // Returns y [N, D], from its slot or computed; the context names the pack attended to.
  const at::Tensor& result(const PartInput& x, const Context& context, LayerTape& tape) const;
  // Called after the last use of y in forward, and in backward.
  void settle(LayerTape& tape) const { tape.settle(slot(kResult)); }
  void release(LayerTape& tape) const { tape.release(slot(kResult)); }

  // Returns dx [N, D] for dy [N, D]; accumulates into the gradients of the parameters and of the
  // rows attended to.
  at::Tensor backward(const at::Tensor& dy, const PartInput& x, const Context& context,
                      LayerTape& tape) const;

  // For decoding: the keys and values [M, 2 D] of the rows attended to [M, E], and y [H, D] for one
  // token x [H, D] of each hypothesis.
  at::Tensor keys_values_of(const at::Tensor& seen) const { return keys_values_.forward(seen); }
  at::Tensor step(const at::Tensor& x, const at::Tensor& keys_values,
                  const DecodingStep& step) const;

 private:
  enum Slot : size_t { kNorm, kQuery, kKeysValues, kAttention, kResult };
  size_t slot(Slot own) const { return options_.first_slot + own; }

  const LayerTape::Tensors& normed(const PartInput& x, LayerTape& tape) const;
  const at::Tensor& query(const PartInput& x, LayerTape& tape) const;            // [N, D]
  const at::Tensor& keys_values(const Context& context, LayerTape& tape) const;  // [M, 2 D]
  const LayerTape::Tensors& attention(const PartInput& x, const Context& context,
                                      LayerTape& tape) const;  // y, softmax

  CrossAttentionOptions options_;
  Norm norm_;
  Linear query_;
  Linear keys_values_;
  Linear out_;
};

}  // namespace sotto::nn
