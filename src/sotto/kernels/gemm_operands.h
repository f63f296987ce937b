// The operands of a product as ATen takes them. Internal to that kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/gemm.h"

namespace sotto::kernels::detail {

inline at::Tensor a_of(const Gemm::Operands& operands) {
  return operands.transpose_a ? operands.a.t() : operands.a;
}

inline at::Tensor b_of(const Gemm::Operands& operands) {
  return operands.transpose_b ? operands.b.t() : operands.b;
}

}  // namespace sotto::kernels::detail
