// The residual connection, in place: x += residual. N rows, D width. Its backward is the identity
// for both, with the dropout mask applied again if there is one.
//
// Allocates nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/elementwise/dropout.h"

namespace sotto::kernels {

struct ResidualAdd {
  // x [N, D] += residual [N, D], both of one type.
  static void accumulate(at::Tensor& x, const at::Tensor& residual);

  // x [N, D] = residual [N, D] + dropout(x), rounded once; N rows of the pack. The mask's scale
  // makes it a half step.
  static void accumulate_dropped(at::Tensor& x, const at::Tensor& residual, const Packing& packing,
                                 const Dropout::Mask& mask);
};

}  // namespace sotto::kernels
