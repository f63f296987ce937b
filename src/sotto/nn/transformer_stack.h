// Transformer blocks one on the other, numbered from 0. N frames, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "sotto/nn/transformer_block.h"

namespace sotto::nn {

class TransformerStack {
 public:
  // options.num_layers blocks.
  TransformerStack(ParameterStore& store, const std::string& name,
                   const TransformerBlockOptions& options);

  // y [N, D] of x [N, D].
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const;

  // dx [N, D] of dy [N, D].
  at::Tensor backward(at::Tensor dy, const Context& context, Tape& tape) const;

  int64_t num_layers() const { return static_cast<int64_t>(blocks_.size()); }

 private:
  std::vector<TransformerBlock> blocks_;
};

}  // namespace sotto::nn
