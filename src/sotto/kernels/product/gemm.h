// Dense matrix products; all products of sotto use this kernel. M rows, N columns, K inner size.
// The row stride of operands and of given results may exceed their width: parts of wider matrices,
// and the windows of a strided convolution.
//
// Allocates: the result; on a GPU, with a 16-bit type and an fp32 bias, a copy of the bias in that
// type. On the CPU the choice of the product depends on type, shape and the CPU's instructions
// (gemm_operands.h): oneDNN's internal allocations are bounded by library_bytes and reserved first;
// 16-bit operands that the CPU cannot multiply, or that have an fp32 result, are converted to fp32
// in blocks of workspace.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sotto::kernels {

struct Gemm {
  struct Operands {
    const at::Tensor& a;  // [M, K], or [K, M] when transpose_a
    const at::Tensor& b;  // [K, N], or [N, K] when transpose_b
    bool transpose_a = false;
    bool transpose_b = false;
    // [N], fp32 or of the operands' type; null: none
    const at::Tensor* bias = nullptr;
  };

  // Sizes of the blocks in which the CPU converts 16-bit operands: rows of the result, and of the
  // inner axis.
  static constexpr int64_t kBlockRows = 512;
  static constexpr int64_t kInnerRowsAtOnce = 512;

  // Returns op(a) op(b) + bias [M, N], of the operands' type.
  static at::Tensor multiply(const Operands& operands);

  // Writes the result of multiply() into `result` [M, N].
  static void multiply_into(at::Tensor& result, const Operands& operands);

  // Returns the result of multiply() in fp32 from 16-bit operands, without intermediate rounding.
  static at::Tensor multiply_to_float(const Operands& operands);

  // sum [M, N] += op(a) op(b); sum is fp32 or of the operands' type. Takes no bias.
  static void accumulate(at::Tensor& sum, const Operands& operands);

  // Returns a bound of what oneDNN's product [M, K] x [K, N] of a type, fp32 or bf16, allocates
  // internally on this architecture.
  static int64_t library_bytes(int64_t m, int64_t n, int64_t k, at::ScalarType type);
  // The bound on a GPU: cuBLAS uses a workspace that it keeps, a part of the library constant.
  static constexpr int64_t kCudaLibraryBytes = 0;
};

}  // namespace sotto::kernels
