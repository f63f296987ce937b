// Values in another type among fp32, bf16 and fp16, rounded to the nearest, of two to the even one.
//
// Allocates: `to` its result, `accumulate` nothing.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct Cast {
  // x, contiguous, in the shape it has and the other type. The types must differ.
  static at::Tensor to(const at::Tensor& x, at::ScalarType type);

  // sum += x, both contiguous and of one shape, in fp32 and rounded once. The types must differ.
  static void accumulate(at::Tensor& sum, const at::Tensor& x);
};

}  // namespace sotto::kernels
