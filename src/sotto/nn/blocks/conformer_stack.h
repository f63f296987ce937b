// A stack of Conformer blocks, and the table of relative positions that all of them read. N frames,
// D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>

#include "sotto/nn/blocks/block_stack.h"
#include "sotto/nn/blocks/conformer_block.h"
#include "sotto/nn/relative_positions.h"

namespace sotto::nn {

class ConformerStack {
 public:
  using Options = BlockStack<ConformerBlock>::Options;

  ConformerStack(ParameterStore& store, const std::string& name, const Options& options)
      : width_(options.block.width), blocks_(store, name, options) {}

  // Returns y [N, D] for x [N, D].
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const {
    const RelativePositions positions(context.packing, width_, x.options());
    return blocks_.forward(std::move(x), context.with_positions(positions), tape);
  }

  // Returns the gradient of the first trained layer's input [N, D] for dy [N, D].
  at::Tensor backward(at::Tensor dy, const Context& context, Tape& tape) const {
    const RelativePositions positions(context.packing, width_, dy.options());
    return blocks_.backward(std::move(dy), context.with_positions(positions), tape);
  }

  int64_t num_layers() const { return blocks_.num_layers(); }

 private:
  int64_t width_;
  BlockStack<ConformerBlock> blocks_;
};

}  // namespace sotto::nn
