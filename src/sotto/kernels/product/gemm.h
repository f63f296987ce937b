// Dense products of matrices, the one way to them. M rows, N columns, K inner size. Rows of
// operands and of given results may be further apart than they are wide: parts of wider matrices,
// and the windows of a strided convolution.
//
// Allocates: the result; on a GPU, with a 16-bit type and an fp32 bias, the bias once more in that
// type. On the CPU which product is run depends on type, shape and the CPU's instructions
// (gemm_operands.h): what oneDNN takes inside is bounded by library_bytes and reserved first;
// 16-bit operands that the CPU cannot multiply, or into an fp32 result, are converted to fp32 in
// blocks of workspace.
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

  // op(a) op(b) + bias [M, N], of the operands' type.
  static at::Tensor multiply(const Operands& operands);

  // The same into `result` [M, N].
  static void multiply_into(at::Tensor& result, const Operands& operands);

  // The same in fp32 from 16-bit operands, without rounding in between.
  static at::Tensor multiply_to_float(const Operands& operands);

  // sum [M, N] += op(a) op(b); sum is fp32 or of the operands' type. Takes no bias.
  static void accumulate(at::Tensor& sum, const Operands& operands);

  // Bound of what oneDNN's product [M, K] x [K, N] of a type, fp32 or bf16, allocates inside on
  // this architecture.
  static int64_t library_bytes(int64_t m, int64_t n, int64_t k, at::ScalarType type);
  // The same on a GPU: cuBLAS works in a space that it keeps, a part of the library constant.
  static constexpr int64_t kCudaLibraryBytes = 0;
};

}  // namespace sotto::kernels
