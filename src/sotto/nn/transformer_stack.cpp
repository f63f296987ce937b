#include "sotto/nn/transformer_stack.h"

#include <fmt/format.h>

#include <utility>

namespace sotto::nn {

TransformerStack::TransformerStack(ParameterStore& store, const std::string& name,
                                   const TransformerStackOptions& options)
    : name_(name), options_(options) {
  for (int64_t layer = 0; layer < options.block.num_layers; ++layer)
    blocks_.emplace_back(store, fmt::format("{}.{}", name, layer), options.block);
}

std::string TransformerStack::prefix_of(const std::string& name, int64_t layer) {
  return fmt::format("{}.{}.", name, layer);
}

std::vector<std::string> TransformerStack::dropped_in(const StepContext& step) const {
  std::vector<std::string> prefixes;
  for (int64_t layer = options_.num_frozen; layer < num_layers(); ++layer) {
    if (step.drops_layer(layer, options_.layer_drop)) prefixes.push_back(prefix_of(name_, layer));
  }
  return prefixes;
}

at::Tensor TransformerStack::forward(at::Tensor x, const Context& context, Tape& tape) const {
  for (int64_t layer = 0; layer < num_layers(); ++layer) {
    if (context.step.drops_layer(layer, options_.layer_drop)) continue;
    const Context own =
        layer < options_.num_frozen ? context.at_frozen_layer(layer) : context.at_layer(layer);
    x = blocks_[static_cast<size_t>(layer)].forward(std::move(x), own, tape);
  }
  return x;
}

at::Tensor TransformerStack::backward(at::Tensor dy, const Context& context, Tape& tape) const {
  for (int64_t layer = num_layers(); layer-- > options_.num_frozen;) {
    if (context.step.drops_layer(layer, options_.layer_drop)) continue;
    dy = blocks_[static_cast<size_t>(layer)].backward(std::move(dy), context.at_layer(layer), tape);
  }
  return dy;
}

}  // namespace sotto::nn
