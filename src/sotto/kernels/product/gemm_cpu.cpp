#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>

#include "sotto/core/error.h"
#include "sotto/kernels/product/gemm.h"
#include "sotto/kernels/product/gemm_operands.h"

namespace at::native {
// oneDNN's product: result = mat1 mat2 + beta result. libtorch_cpu.so exports it; the wheel has no
// header that declares it.
void mkldnn_matmul(const Tensor& mat1, const Tensor& mat2, const Tensor& result, float beta,
                   float alpha);
}  // namespace at::native

namespace sotto::kernels::detail {

namespace {

// BLAS's product: sum = a b + beta sum, in fp32. ATen tries oneDNN first unless that is disabled
// for the process.
void multiply_by_blas(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, float beta) {
  static const bool is_onednn_off = [] {
    at::globalContext().setUserEnabledMkldnn(false);
    return true;
  }();
  (void)is_onednn_off;
  at::addmm_out(sum, sum, a, b, beta);
}

// Returns the first rows x columns values of a flat block, as a matrix.
at::Tensor matrix_in(const at::Tensor& block, int64_t rows, int64_t columns) {
  return block.view({-1}).narrow(0, 0, rows * columns).view({rows, columns});
}

// Returns a part of an operand in fp32, copied in its own layout, which `is_transposed` describes.
at::Tensor converted_part(const at::Tensor& operand, bool is_transposed, const at::Tensor& block) {
  const at::Tensor lying = is_transposed ? operand.t() : operand;
  at::Tensor part = matrix_in(block, lying.size(0), lying.size(1));
  part.copy_(lying);
  return is_transposed ? part.t() : part;
}

}  // namespace

CpuProduct choose_cpu_product(const Gemm::Operands& operands, const GemmShape& shape,
                              const device::CpuFeatures& cpu) {
  // Below these sizes oneDNN's set-up costs more than the product (ATen has the same thresholds).
  constexpr int64_t kMinSide = 8, kMinProducts = 8 * 1024;
  const bool is_large = std::min({shape.m, shape.n, shape.k}) > kMinSide &&
                        shape.m * shape.n * shape.k > kMinProducts;
  const at::ScalarType type = operands.a.scalar_type();
  if (type == at::kFloat) {
    return is_large && has_float_onednn(operands.transpose_b) ? CpuProduct::kOneDnn
                                                              : CpuProduct::kBlas;
  }
  return is_large && type == at::kBFloat16 && cpu.bf16 ? CpuProduct::kOneDnn
                                                       : CpuProduct::kConverted;
}

void gemm_blas_cpu(at::Tensor& result, const Gemm::Operands& operands, float beta) {
  multiply_by_blas(result, a_of(operands), b_of(operands), beta);
}

void gemm_onednn_cpu(at::Tensor& result, const Gemm::Operands& operands, float beta) {
  try {
    at::native::mkldnn_matmul(a_of(operands), b_of(operands), result, beta, 1.0f);
  } catch (const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    throw OutOfMemory(
        {.attempted = fmt::format("multiplying [{}, {}] by [{}, {}] in {} by oneDNN",
                                  result.size(0), a_of(operands).size(1), b_of(operands).size(0),
                                  result.size(1), c10::toString(result.scalar_type())),
         .found = torch_error == nullptr ? error.what() : torch_error->what_without_backtrace(),
         .expected = "enough host memory for its buffers"});
  }
}

void gemm_converted_cpu(at::Tensor& result, const Gemm::Operands& operands,
                        const ConvertedBlocks& blocks, float beta) {
  const at::Tensor a = a_of(operands), b = b_of(operands);
  const int64_t depth = a.size(1);
  for (int64_t row = 0; row < result.size(0); row += Gemm::kBlockRows) {
    const int64_t rows = std::min(Gemm::kBlockRows, result.size(0) - row);
    at::Tensor part = result.narrow(0, row, rows);
    at::Tensor sum = blocks.sum.defined() ? matrix_in(blocks.sum, rows, result.size(1)) : part;
    if (beta == 0.0f) {
      sum.zero_();
    } else if (blocks.sum.defined()) {
      sum.copy_(part);
    }
    for (int64_t first = 0; first < depth; first += Gemm::kInnerRowsAtOnce) {
      const int64_t count = std::min(Gemm::kInnerRowsAtOnce, depth - first);
      const at::Tensor left = converted_part(a.narrow(0, row, rows).narrow(1, first, count),
                                             operands.transpose_a, blocks.a);
      const at::Tensor right =
          converted_part(b.narrow(0, first, count), operands.transpose_b, blocks.b);
      multiply_by_blas(sum, left, right, 1.0f);
    }
    if (blocks.sum.defined()) part.copy_(sum);
  }
}

}  // namespace sotto::kernels::detail
