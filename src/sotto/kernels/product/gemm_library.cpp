// ATen's products on a GPU: cuBLAS.
#include <ATen/ATen.h>

#include "sotto/kernels/product/gemm_operands.h"

namespace sotto::kernels::detail {

void gemm_cuda(at::Tensor& result, const Gemm::Operands& operands, const at::Tensor& bias) {
  if (bias.defined()) {
    at::addmm_out(result, bias, a_of(operands), b_of(operands));
  } else {
    at::mm_out(result, a_of(operands), b_of(operands));
  }
}

// cuBLAS multiplies 16-bit operands into an fp32 sum directly.
void gemm_accumulate_cuda(at::Tensor& sum, const Gemm::Operands& operands) {
  if (sum.scalar_type() == operands.a.scalar_type()) {
    at::addmm_out(sum, sum, a_of(operands), b_of(operands));
  } else {
    at::addmm_out(sum, sum, a_of(operands), b_of(operands), at::kFloat);
  }
}

}  // namespace sotto::kernels::detail
