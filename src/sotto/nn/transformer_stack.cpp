#include "sotto/nn/transformer_stack.h"

#include <fmt/format.h>

#include <utility>

namespace sotto::nn {

TransformerStack::TransformerStack(ParameterStore& store, const std::string& name,
                                   const TransformerBlockOptions& options) {
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    blocks_.emplace_back(store, fmt::format("{}.{}", name, layer), options);
  }
}

at::Tensor TransformerStack::forward(at::Tensor x, const Context& context, Tape& tape) const {
  for (int64_t layer = 0; layer < num_layers(); ++layer) {
    x = blocks_[static_cast<size_t>(layer)].forward(std::move(x), context.at_layer(layer), tape);
  }
  return x;
}

at::Tensor TransformerStack::backward(at::Tensor dy, const Context& context, Tape& tape) const {
  for (int64_t layer = num_layers(); layer-- > 0;) {
    dy = blocks_[static_cast<size_t>(layer)].backward(std::move(dy), context.at_layer(layer), tape);
  }
  return dy;
}

}  // namespace sotto::nn
