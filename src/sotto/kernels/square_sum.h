// The sum of squares of a flat range, for the norm of the gradients. n values.
//
// Allocates: as workspace fp64 [slabs], at most 8 KiB.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct SquareSum {
  // The sum over values [n] fp32 of their squares, in double: no fp32 value overflows or vanishes
  // in it. NaN if one of them is, infinite if one is and none is NaN. A dry run finds 0.
  static double of(const at::Tensor& values);
};

}  // namespace sotto::kernels
