// The sum of squares of flat ranges, for the norm of the gradients. n values.
//
// Allocates: as workspace fp64 [slabs], at most 8 KiB.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct SquareSum {
  // Adds to total fp64 [1] the sum over values [n], fp32 or bf16, of their squares, in double: no
  // value overflows or vanishes in it. NaN if one of them is, infinite if one is and none is NaN.
  // The host does not see the sum and need not wait for it.
  static void accumulate(at::Tensor& total, const at::Tensor& values);
};

}  // namespace sotto::kernels
