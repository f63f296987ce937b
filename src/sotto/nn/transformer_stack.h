// A stack of transformer blocks, the names of which are numbered from 0. N frames, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/nn/transformer_block.h"

namespace sotto::nn {

struct TransformerStackOptions {
  // block.num_layers of them.
  TransformerBlockOptions block;
  // Probability that a layer is left out of a step, for all of its utterances.
  double layer_drop = 0.0;
  // This many of the first layers have frozen parameters, and so has all before them.
  int64_t num_frozen = 0;
  // The number of the first block in the network: a second stack follows all layers of the first.
  int64_t first_layer = 0;
};

class TransformerStack {
 public:
  TransformerStack(ParameterStore& store, const std::string& name,
                   const TransformerStackOptions& options);

  // y [N, D] of x [N, D].
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const;

  // The gradient of the first trained layer's input [N, D] of dy [N, D].
  at::Tensor backward(at::Tensor dy, const Context& context, Tape& tape) const;

  int64_t num_layers() const { return static_cast<int64_t>(blocks_.size()); }

  // What the names of a block's parameters begin with.
  static std::string prefix_of(const std::string& name, int64_t block);

 private:
  bool is_dropped(const Context& context, int64_t block) const;

  TransformerStackOptions options_;
  std::vector<TransformerBlock> blocks_;
};

}  // namespace sotto::nn
