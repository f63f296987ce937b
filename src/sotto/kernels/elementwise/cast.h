// Conversion between fp32, bf16 and fp16, rounded to nearest, ties to even.
//
// Allocates: `to` its result, `accumulate` nothing.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct Cast {
  // Returns x, which must be contiguous, in the given type and the same shape. The types must
  // differ.
  static at::Tensor to(const at::Tensor& x, at::ScalarType type);

  // sum += x, both contiguous and of the same shape, computed in fp32 and rounded once. The types
  // must differ.
  static void accumulate(at::Tensor& sum, const at::Tensor& x);
};

}  // namespace sotto::kernels
