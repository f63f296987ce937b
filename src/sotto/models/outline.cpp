#include "sotto/models/outline.h"

#include "sotto/nn/blocks/block_stack.h"

namespace sotto::models {

void Outline::add(const StackOutline& stack) {
  const int64_t number = layers.empty() ? 0 : layers.back().stack + 1;
  for (int64_t block = 0; block < stack.num_blocks; ++block) {
    layers.push_back({.prefix = nn::prefix_of_block(stack.prefix, block),
                      .is_block = true,
                      .stack = number,
                      .drop = block < stack.num_frozen ? 0.0 : stack.drop});
  }
  for (const std::string& other : stack.others)
    layers.push_back({.prefix = other + ".", .stack = number});
}

std::vector<std::string> Outline::left_out(const nn::StepContext& step) const {
  std::vector<std::string> prefixes;
  for (size_t number = 0; number < layers.size(); ++number) {
    if (step.drops_layer(static_cast<int64_t>(number), layers[number].drop))
      prefixes.push_back(layers[number].prefix);
  }
  return prefixes;
}

}  // namespace sotto::models
