// Code shared by the parts of the product: operands in ATen's form, and the choice of the CPU's
// product. Internal to that kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/device/cpu_features.h"
#include "sotto/kernels/product/gemm.h"

namespace sotto::kernels::detail {

inline at::Tensor a_of(const Gemm::Operands& operands) {
  return operands.transpose_a ? operands.a.t() : operands.a;
}

inline at::Tensor b_of(const Gemm::Operands& operands) {
  return operands.transpose_b ? operands.b.t() : operands.b;
}

struct GemmShape {
  int64_t m, n, k;
};

// How the CPU multiplies. ATen would choose too, but if its choice fails it prints a stack trace,
// disables oneDNN for the whole process and continues with different rounding.
enum class CpuProduct {
  // fp32 by MKL or NVPL, which do not use LibTorch's allocator.
  kBlas,
  // bf16 on a CPU with instructions for it, and fp32 where ATen would use oneDNN too.
  kOneDnn,
  // 16-bit operands in blocks, converted to fp32 and multiplied by BLAS; the sum is rounded once.
  kConverted,
};

CpuProduct choose_cpu_product(const Gemm::Operands& operands, const GemmShape& shape,
                              const device::CpuFeatures& cpu);

// Returns whether oneDNN multiplies in fp32 on this architecture, with b as it is or transposed.
bool has_float_onednn(bool transpose_b);

// Blocks of kConverted, fp32: [kBlockRows, kInnerRowsAtOnce] of op(a), [kInnerRowsAtOnce, N] of
// op(b), and their product [kBlockRows, N] if the result is not fp32 itself.
struct ConvertedBlocks {
  at::Tensor a, b, sum;
};

}  // namespace sotto::kernels::detail
