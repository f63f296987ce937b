#include "sotto/kernels/product/gemm.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "sotto/device/torch_memory.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/product/gemm_operands.h"

namespace sotto::kernels {

namespace detail {
void gemm_cuda(at::Tensor& result, const Gemm::Operands& operands, const at::Tensor& bias);
void gemm_accumulate_cuda(at::Tensor& sum, const Gemm::Operands& operands);
// result = op(a) op(b) + beta result
void gemm_blas_cpu(at::Tensor& result, const Gemm::Operands& operands, float beta);
void gemm_onednn_cpu(at::Tensor& result, const Gemm::Operands& operands, float beta);
void gemm_converted_cpu(at::Tensor& result, const Gemm::Operands& operands,
                        const ConvertedBlocks& blocks, float beta);
}  // namespace detail

namespace {

using detail::CpuProduct;
using Shape = detail::GemmShape;

// Elements of a row are adjacent; rows do not overlap within one product's operand as BLAS sees it.
void check_matrix(const at::Tensor& x, std::string_view name) {
  SOTTO_ASSERT(x.dim() == 2 && (x.stride(1) == 1 || x.size(1) == 1) &&
                   (x.stride(0) >= x.size(1) || x.size(0) == 1),
               "{} of shape [{}] has strides [{}]", name, fmt::join(x.sizes(), ", "),
               fmt::join(x.strides(), ", "));
  const at::ScalarType type = x.scalar_type();
  SOTTO_ASSERT(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf, "{} is {}", name,
               c10::toString(type));
}

Shape checked_shape(const Gemm::Operands& operands) {
  check_matrix(operands.a, "a");
  check_matrix(operands.b, "b");
  SOTTO_ASSERT(operands.a.scalar_type() == operands.b.scalar_type(), "a is {}, b is {}",
               c10::toString(operands.a.scalar_type()), c10::toString(operands.b.scalar_type()));
  const Shape shape{.m = operands.a.size(operands.transpose_a ? 1 : 0),
                    .n = operands.b.size(operands.transpose_b ? 0 : 1),
                    .k = operands.a.size(operands.transpose_a ? 0 : 1)};
  const int64_t inner = operands.b.size(operands.transpose_b ? 1 : 0);
  SOTTO_ASSERT(inner == shape.k, "inner sizes are {} and {}", shape.k, inner);
  return shape;
}

void report(const Gemm::Operands& operands, const Shape& shape, double result_bytes) {
  const double products =
      static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  const bool is_float = operands.a.scalar_type() == at::kFloat;
  report_cost(is_float ? "matrix_products.32-bit" : "matrix_products.16-bit",
              {.flops = 2.0 * products,
               .bytes = bytes_of(operands.a) + bytes_of(operands.b) + result_bytes,
               .work = is_float ? Work::kProduct32 : Work::kProduct16});
}

// Returns the bias in the operands' type, as cuBLAS requires; a workspace copy if it has another
// type.
at::Tensor bias_for_cuda(const Gemm::Operands& operands) {
  if (operands.bias == nullptr) return {};
  if (operands.bias->scalar_type() == operands.a.scalar_type()) return *operands.bias;
  at::Tensor converted = make_workspace({operands.bias->size(0)}, operands.a.options());
  if (!is_dry(converted)) converted.copy_(*operands.bias);
  return converted;
}

void check_result(const at::Tensor& result, const Shape& shape) {
  check_matrix(result, "result");
  SOTTO_ASSERT(result.size(0) == shape.m && result.size(1) == shape.n,
               "a result of [{}] for [{}, {}]", fmt::join(result.sizes(), ", "), shape.m, shape.n);
}

void check_bias(const Gemm::Operands& operands, int64_t n) {
  if (operands.bias == nullptr) return;
  const at::Tensor& bias = *operands.bias;
  SOTTO_ASSERT(bias.dim() == 1 && bias.size(0) == n && bias.is_contiguous(),
               "a bias of {} for {} columns", bias.numel(), n);
}

detail::ConvertedBlocks make_blocks(const at::Tensor& result, const Shape& shape) {
  const at::TensorOptions options = result.options().dtype(at::kFloat);
  const int64_t rows = std::min(shape.m, Gemm::kBlockRows);
  const int64_t inner = std::min(shape.k, Gemm::kInnerRowsAtOnce);
  detail::ConvertedBlocks blocks{.a = make_workspace({rows, inner}, options),
                                 .b = make_workspace({inner, shape.n}, options),
                                 .sum = {}};
  if (result.scalar_type() != at::kFloat) blocks.sum = make_workspace({rows, shape.n}, options);
  return blocks;
}

void accumulate_on_cuda(at::Tensor& sum, const Gemm::Operands& operands) {
  const device::LibraryCall call("gemm", sum.device().type(), Gemm::kCudaLibraryBytes);
  if (!is_dry(sum)) detail::gemm_accumulate_cuda(sum, operands);
}

// result = op(a) op(b) + beta result on the CPU, or dry.
void multiply_on_cpu(at::Tensor& result, const Gemm::Operands& operands, const Shape& shape,
                     float beta) {
  const bool is_mixed = result.scalar_type() != operands.a.scalar_type();
  const CpuProduct product =
      is_mixed ? CpuProduct::kConverted
               : detail::choose_cpu_product(operands, shape, target_of(result).cpu);
  if (product == CpuProduct::kConverted) {
    const detail::ConvertedBlocks blocks = make_blocks(result, shape);
    if (!is_dry(result)) detail::gemm_converted_cpu(result, operands, blocks, beta);
    return;
  }
  // BLAS needs none of it. But if some products of a layer reserved and others did not,
  // fragmentation would increase from 2 % to as much as 16 %.
  const int64_t bound = Gemm::library_bytes(shape.m, shape.n, shape.k, result.scalar_type());
  const device::LibraryCall call("gemm", result.device().type(), bound);
  if (is_dry(result)) return;
  if (product == CpuProduct::kOneDnn) {
    detail::gemm_onednn_cpu(result, operands, beta);
  } else {
    detail::gemm_blas_cpu(result, operands, beta);
  }
}

// result = op(a) op(b) + bias
void multiply_checked(at::Tensor& result, const Gemm::Operands& operands, const Shape& shape) {
  check_bias(operands, shape.n);
  report(operands, shape, bytes_of(result));
  if (is_for_cuda(result) && result.scalar_type() == operands.a.scalar_type()) {
    const at::Tensor bias = bias_for_cuda(operands);
    const device::LibraryCall call("gemm", result.device().type(), Gemm::kCudaLibraryBytes);
    if (!is_dry(result)) detail::gemm_cuda(result, operands, bias);
    return;
  }
  if (!is_dry(result)) {
    if (operands.bias != nullptr) {
      result.copy_(*operands.bias);
    } else if (is_for_cuda(result)) {
      result.zero_();
    }
  }
  if (is_for_cuda(result)) {
    accumulate_on_cuda(result, operands);
  } else {
    multiply_on_cpu(result, operands, shape, operands.bias == nullptr ? 0.0f : 1.0f);
  }
}

}  // namespace

at::Tensor Gemm::multiply(const Operands& operands) {
  const Shape shape = checked_shape(operands);
  at::Tensor result = make_result({shape.m, shape.n}, operands.a);
  multiply_into(result, operands);
  return result;
}

void Gemm::multiply_into(at::Tensor& result, const Operands& operands) {
  const Shape shape = checked_shape(operands);
  check_result(result, shape);
  SOTTO_ASSERT(result.scalar_type() == operands.a.scalar_type(), "a result of type {}",
               c10::toString(result.scalar_type()));
  multiply_checked(result, operands, shape);
}

at::Tensor Gemm::multiply_to_float(const Operands& operands) {
  const Shape shape = checked_shape(operands);
  at::Tensor result = make_float_result({shape.m, shape.n}, operands.a);
  multiply_checked(result, operands, shape);
  return result;
}

void Gemm::accumulate(at::Tensor& sum, const Operands& operands) {
  const Shape shape = checked_shape(operands);
  SOTTO_ASSERT(operands.bias == nullptr, "an accumulated product takes no bias");
  check_result(sum, shape);
  SOTTO_ASSERT(sum.scalar_type() == at::kFloat || sum.scalar_type() == operands.a.scalar_type(),
               "a sum of type {}", c10::toString(sum.scalar_type()));
  report(operands, shape, 2.0 * bytes_of(sum));
  if (is_for_cuda(sum)) {
    accumulate_on_cuda(sum, operands);
  } else {
    multiply_on_cpu(sum, operands, shape, 1.0f);
  }
}

}  // namespace sotto::kernels
