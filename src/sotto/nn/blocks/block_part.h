// The parts of a block, such as its attention: each adds something to the result of the part before
// it, and has slots on the tape of the block.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace sotto::nn {

// Returns the rows x [N, D] that a part adds to, computed on demand.
using PartInput = std::function<const at::Tensor&()>;

}  // namespace sotto::nn
