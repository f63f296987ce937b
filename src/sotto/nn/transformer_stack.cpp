#include "sotto/nn/transformer_stack.h"

#include <fmt/format.h>

#include <utility>

namespace sotto::nn {

TransformerStack::TransformerStack(ParameterStore& store, const std::string& name,
                                   const TransformerStackOptions& options)
    : options_(options) {
  for (int64_t block = 0; block < options.block.num_layers; ++block)
    blocks_.emplace_back(store, fmt::format("{}.{}", name, block), options.block);
}

std::string TransformerStack::prefix_of(const std::string& name, int64_t block) {
  return fmt::format("{}.{}.", name, block);
}

bool TransformerStack::is_dropped(const Context& context, int64_t block) const {
  return context.step.drops_layer(options_.first_layer + block, options_.layer_drop);
}

at::Tensor TransformerStack::forward(at::Tensor x, const Context& context, Tape& tape) const {
  for (int64_t block = 0; block < num_layers(); ++block) {
    if (is_dropped(context, block)) continue;
    const int64_t layer = options_.first_layer + block;
    const Context own =
        block < options_.num_frozen ? context.at_frozen_layer(layer) : context.at_layer(layer);
    x = blocks_[static_cast<size_t>(block)].forward(std::move(x), own, tape);
  }
  return x;
}

at::Tensor TransformerStack::backward(at::Tensor dy, const Context& context, Tape& tape) const {
  for (int64_t block = num_layers(); block-- > options_.num_frozen;) {
    if (is_dropped(context, block)) continue;
    const Context own = context.at_layer(options_.first_layer + block);
    dy = blocks_[static_cast<size_t>(block)].backward(std::move(dy), own, tape);
  }
  return dy;
}

}  // namespace sotto::nn
