#include "sotto/nn/relative_positions.h"

#include "sotto/kernels/elementwise/position_add.h"

namespace sotto::nn {

RelativePositions::RelativePositions(const kernels::Packing& packing, int64_t width,
                                     const at::TensorOptions& like)
    : table_(kernels::RelativeSinusoids::forward(packing, width, like)) {}

}  // namespace sotto::nn
