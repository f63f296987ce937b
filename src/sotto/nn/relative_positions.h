// The table of relative positions that all attention layers of a stack share: sines and cosines of
// distances between frames. It depends only on the longest utterance of the pack; the stack
// computes it for forward, and again for backward. The layers project it by weights of their own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/kernels/base/packing.h"

namespace sotto::nn {

class RelativePositions {
 public:
  // `like`: the type and device of the layers' inputs. D is even.
  RelativePositions(const kernels::Packing& packing, int64_t width, const at::TensorOptions& like);

  // [2 L - 1, D] for the longest utterance L: distances from L - 1 down to -(L - 1).
  const at::Tensor& table() const { return table_; }

 private:
  at::Tensor table_;
};

}  // namespace sotto::nn
