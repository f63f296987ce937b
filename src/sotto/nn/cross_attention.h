// The part of a decoder's block that looks at another pack, such as an encoder's result. N rows of
// the block's own pack, M of the other, D width, E width of the other.
//
//   y = x + drop(Wo attention(Wq norm(x), Wkv seen))
//
// Its slots lie on the tape of the block, and it is computed again as the block's other parts are.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "sotto/nn/context.h"
#include "sotto/nn/linear.h"
#include "sotto/nn/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct CrossAttentionOptions {
  int64_t width = 256;
  // Of the rows that are looked at.
  int64_t seen_width = 256;
  int64_t num_heads = 4;
  double dropout = 0.1;
  NormKind norm = NormKind::kLayer;
  // 0: the kind's usual one.
  double norm_epsilon = 0.0;
  // Matrices begin with these deviations, the result's with its own; 0: by their inputs.
  double deviation = 0.0;
  double result_deviation = 0.0;
  // The first of its slots on the block's tape, and its place of dropout in the layer.
  size_t first_slot = 0;
  int64_t dropout_place = 0;
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

  // x [N, D], computed where it is asked for.
  using Input = std::function<const at::Tensor&()>;

  // y [N, D], from its slot or computed; the context names the pack that is looked at.
  const at::Tensor& result(const Input& x, const Context& context, LayerTape& tape) const;
  // After the last use of y in forward, and in backward.
  void settle(LayerTape& tape) const { tape.settle(slot(kResult)); }
  void release(LayerTape& tape) const { tape.release(slot(kResult)); }

  // dx [N, D] of dy [N, D]; adds to the parameters' gradients and to that of what was looked at.
  at::Tensor backward(const at::Tensor& dy, const Input& x, const Context& context,
                      LayerTape& tape) const;

 private:
  enum Slot : size_t { kNorm, kQuery, kKeysValues, kAttention, kResult };
  size_t slot(Slot own) const { return options_.first_slot + own; }

  const LayerTape::Tensors& normed(const Input& x, LayerTape& tape) const;
  const at::Tensor& query(const Input& x, LayerTape& tape) const;                // [N, D]
  const at::Tensor& keys_values(const Context& context, LayerTape& tape) const;  // [M, 2 D]
  const LayerTape::Tensors& attention(const Input& x, const Context& context,
                                      LayerTape& tape) const;  // y, softmax

  CrossAttentionOptions options_;
  Norm norm_;
  Linear query_;
  Linear keys_values_;
  Linear out_;
};

}  // namespace sotto::nn
