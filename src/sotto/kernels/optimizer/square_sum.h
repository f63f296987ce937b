// The sum of squares of flat ranges, for the norm of the gradients. n values.
//
// Allocates: as workspace fp64 [slabs], at most 8 KiB.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct SquareSum {
  // Adds to total fp64 [1] the sum of the squares of values [n], fp32 or bf16, in double, so that
  // no value overflows or underflows. NaN if one of them is NaN, infinite if one is infinite and
  // none is NaN. The sum stays on the device and the host need not wait for it.
  static void accumulate(at::Tensor& total, const at::Tensor& values);
};

}  // namespace sotto::kernels
