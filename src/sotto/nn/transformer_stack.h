// A stack of transformer blocks, named by number from 0. N frames, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/nn/transformer_block.h"

namespace sotto::nn {

struct TransformerStackOptions {
  // Options of each block; there are block.num_layers of them.
  TransformerBlockOptions block;
  // Probability that a layer is skipped in a step, for all of its utterances.
  double layer_drop = 0.0;
  // Number of first layers with frozen parameters; everything before them is frozen as well.
  int64_t num_frozen = 0;
  // Number of the first block in the network: a second stack follows all layers of the first.
  int64_t first_layer = 0;
};

class TransformerStack {
 public:
  TransformerStack(ParameterStore& store, const std::string& name,
                   const TransformerStackOptions& options);

  // Returns y [N, D] for x [N, D].
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const;

  // Returns the gradient of the first trained layer's input [N, D] for dy [N, D].
  at::Tensor backward(at::Tensor dy, const Context& context, Tape& tape) const;

  int64_t num_layers() const { return static_cast<int64_t>(blocks_.size()); }

  // Returns the prefix of the names of a block's parameters.
  static std::string prefix_of(const std::string& name, int64_t block);

 private:
  bool is_dropped(const Context& context, int64_t block) const;

  TransformerStackOptions options_;
  std::vector<TransformerBlock> blocks_;
};

}  // namespace sotto::nn
