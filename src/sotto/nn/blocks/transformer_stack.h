// A stack of transformer blocks.
#pragma once

#include "sotto/nn/blocks/block_stack.h"
#include "sotto/nn/blocks/transformer_block.h"

namespace sotto::nn {

using TransformerStack = BlockStack<TransformerBlock>;

}  // namespace sotto::nn
