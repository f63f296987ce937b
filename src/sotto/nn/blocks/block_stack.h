// A stack of blocks of one kind, named by number from 0. N frames, D width.
//
// A block has Options with num_layers, a constructor (store, name, options), and forward and
// backward as TransformerBlock has them.
#pragma once

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sotto/nn/context.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

// Returns the prefix of the names of a block's parameters.
inline std::string prefix_of_block(const std::string& stack, int64_t block) {
  return fmt::format("{}.{}.", stack, block);
}

template <class Block>
class BlockStack {
 public:
  struct Options {
    // Options of each block; there are block.num_layers of them.
    typename Block::Options block;
    // Probability that a layer is skipped in a step, for all of its utterances.
    double layer_drop = 0.0;
    // Number of first layers with frozen parameters; everything before them is frozen as well.
    int64_t num_frozen = 0;
    // Number of the first block in the network: a second stack follows all layers of the first.
    int64_t first_layer = 0;
  };

  BlockStack(ParameterStore& store, const std::string& name, const Options& options)
      : options_(options) {
    for (int64_t block = 0; block < options.block.num_layers; ++block)
      blocks_.emplace_back(store, fmt::format("{}.{}", name, block), options.block);
  }

  // Returns y [N, D] for x [N, D].
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const {
    for (int64_t block = 0; block < num_layers(); ++block) {
      if (is_dropped(context, block)) continue;
      const int64_t layer = options_.first_layer + block;
      const Context own =
          block < options_.num_frozen ? context.at_frozen_layer(layer) : context.at_layer(layer);
      x = blocks_[static_cast<size_t>(block)].forward(std::move(x), own, tape);
    }
    return x;
  }

  // Returns the gradient of the first trained layer's input [N, D] for dy [N, D].
  at::Tensor backward(at::Tensor dy, const Context& context, Tape& tape) const {
    for (int64_t block = num_layers(); block-- > options_.num_frozen;) {
      if (is_dropped(context, block)) continue;
      const Context own = context.at_layer(options_.first_layer + block);
      dy = blocks_[static_cast<size_t>(block)].backward(std::move(dy), own, tape);
    }
    return dy;
  }

  int64_t num_layers() const { return static_cast<int64_t>(blocks_.size()); }
  const Block& block(int64_t index) const { return blocks_.at(static_cast<size_t>(index)); }

 private:
  bool is_dropped(const Context& context, int64_t block) const {
    return context.step.drops_layer(options_.first_layer + block, options_.layer_drop);
  }

  Options options_;
  std::vector<Block> blocks_;
};

}  // namespace sotto::nn
