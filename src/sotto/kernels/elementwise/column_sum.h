// Sum over rows, added to a vector: the gradient of a bias. N rows, D width.
//
// Allocates: workspace fp32 [slabs, D]. The operation is linear: its backward is a broadcast that
// no layer needs.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct ColumnSum {
  // sum [D] fp32 += sum over rows of x [N, D].
  static void accumulate(at::Tensor& sum, const at::Tensor& x);
};

}  // namespace sotto::kernels
