// The residual connection, in place: x += residual. N rows, D width. Its backward is the identity
// for both.
//
// Allocates nothing.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct ResidualAdd {
  // x [N, D] += residual [N, D], both of one type.
  static void accumulate(at::Tensor& x, const at::Tensor& residual);
};

}  // namespace sotto::kernels
