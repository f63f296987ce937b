// Values in another type among fp32, bf16 and fp16, rounded to the nearest, of two to the even one.
//
// Allocates: the result.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct Cast {
  // x, contiguous, in the shape it has and the other type. The types must differ.
  static at::Tensor to(const at::Tensor& x, at::ScalarType type);
};

}  // namespace sotto::kernels
