// A stack of transformer blocks with its parameters, and one step of it.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "sotto/nn/blocks/transformer_stack.h"

namespace sotto::test {

class BlockFixture {
 public:
  explicit BlockFixture(const nn::TransformerBlockOptions& options,
                        at::ScalarType type = at::kFloat, const at::Device& device = at::kCPU)
      : stack(store, "blocks", {.block = options}) {
    // Small shapes in tests: every matrix in the type under test.
    store.allocate({.device = device, .weights = type, .small_below = 1, .seed = 3});
  }

  nn::ParameterStore store;
  nn::TransformerStack stack;
};

inline std::vector<nn::Tier> tiers_of(int64_t num_layers, nn::Tier tier) {
  return std::vector<nn::Tier>(static_cast<size_t>(num_layers), tier);
}

// All gradients of parameters, in the order of their declaration.
inline std::vector<at::Tensor> gradients_of(const nn::ParameterStore& store) {
  std::vector<at::Tensor> gradients;
  for (const nn::Parameter& parameter : store.parameters())
    gradients.push_back(parameter.gradient.clone());
  return gradients;
}

}  // namespace sotto::test
