// The products that ATen does alike on every device: oneDNN and MKL on the CPU, cuBLAS on a GPU.
#include <ATen/ATen.h>

#include "sotto/kernels/gemm_operands.h"

namespace sotto::kernels::detail {

void gemm_multiply(const Gemm::Operands& operands, const at::Tensor& bias, at::Tensor& result) {
  if (bias.defined()) {
    at::addmm_out(result, bias, a_of(operands), b_of(operands));
  } else {
    at::mm_out(result, a_of(operands), b_of(operands));
  }
}

void gemm_accumulate(at::Tensor& sum, const Gemm::Operands& operands) {
  at::addmm_out(sum, sum, a_of(operands), b_of(operands));
}

// cuBLAS multiplies 16-bit operands into an fp32 sum directly.
void gemm_accumulate_mixed_cuda(at::Tensor& sum, const Gemm::Operands& operands) {
  at::addmm_out(sum, sum, a_of(operands), b_of(operands), at::kFloat);
}

}  // namespace sotto::kernels::detail
