#include "sotto/kernels/gemm.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "sotto/device/torch_memory.h"
#include "sotto/kernels/kernel.h"

namespace sotto::kernels {

namespace detail {
void gemm_multiply(const Gemm::Operands& operands, const at::Tensor& bias, at::Tensor& result);
void gemm_accumulate(at::Tensor& sum, const Gemm::Operands& operands);
void gemm_convert_bias_cpu(const at::Tensor& bias, const at::Tensor& converted);
// With workspace for kInnerRowsAtOnce inner rows of both operands.
void gemm_accumulate_mixed_cpu(at::Tensor& sum, const Gemm::Operands& operands,
                               const at::Tensor& a_rows, const at::Tensor& b_rows);
void gemm_accumulate_mixed_cuda(at::Tensor& sum, const Gemm::Operands& operands);
}  // namespace detail

namespace {

struct Shape {
  int64_t m, n, k;
};

// Elements of a row lie side by side; rows do not overlap within one product's operand as BLAS sees
// it.
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
  report_cost(is_float ? "gemm.32" : "gemm.16",
              {.flops = 2.0 * products,
               .bytes = bytes_of(operands.a) + bytes_of(operands.b) + result_bytes,
               .work = is_float ? Work::kProduct32 : Work::kProduct16});
}

// The bias in the operands' type, as ATen's product wants it; a workspace copy where it has
// another.
at::Tensor bias_of(const Gemm::Operands& operands, int64_t n) {
  if (operands.bias == nullptr) return {};
  const at::Tensor& bias = *operands.bias;
  SOTTO_ASSERT(bias.dim() == 1 && bias.size(0) == n && bias.is_contiguous(),
               "a bias of {} for {} columns", bias.numel(), n);
  if (bias.scalar_type() == operands.a.scalar_type()) return bias;
  at::Tensor converted = make_workspace({n}, operands.a.options());
  if (is_dry(converted)) return converted;
  if (converted.is_cpu()) {
    detail::gemm_convert_bias_cpu(bias, converted);
  } else {
    converted.copy_(bias);
  }
  return converted;
}

int64_t library_bytes_for(const at::Tensor& result, const Shape& shape) {
  if (is_for_cuda(result)) return Gemm::kCudaLibraryBytes;
  return Gemm::library_bytes(shape.m, shape.n, shape.k, result.scalar_type());
}

void check_result(const at::Tensor& result, const Shape& shape) {
  check_matrix(result, "result");
  SOTTO_ASSERT(result.size(0) == shape.m && result.size(1) == shape.n,
               "a result of [{}] for [{}, {}]", fmt::join(result.sizes(), ", "), shape.m, shape.n);
}

void accumulate_mixed(at::Tensor& sum, const Gemm::Operands& operands, const Shape& shape) {
  if (is_for_cuda(sum)) {
    const device::LibraryCall call("gemm to fp32", sum.device().type(), Gemm::kCudaLibraryBytes);
    if (!is_dry(sum)) detail::gemm_accumulate_mixed_cuda(sum, operands);
    return;
  }
  const int64_t rows = std::min(shape.k, Gemm::kInnerRowsAtOnce);
  const at::Tensor a_rows = make_workspace({rows, shape.m}, sum.options());
  const at::Tensor b_rows = make_workspace({rows, shape.n}, sum.options());
  const device::LibraryCall call("gemm to fp32", sum.device().type(),
                                 Gemm::library_bytes(shape.m, shape.n, rows, at::kFloat));
  if (is_dry(sum)) return;
  detail::gemm_accumulate_mixed_cpu(sum, operands, a_rows, b_rows);
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
  report(operands, shape, bytes_of(result));
  const at::Tensor bias = bias_of(operands, shape.n);
  const device::LibraryCall call("gemm", result.device().type(), library_bytes_for(result, shape));
  if (!is_dry(result)) detail::gemm_multiply(operands, bias, result);
}

at::Tensor Gemm::multiply_to_float(const Operands& operands) {
  if (operands.a.scalar_type() == at::kFloat) return multiply(operands);
  const Shape shape = checked_shape(operands);
  at::Tensor result = make_float_result({shape.m, shape.n}, operands.a);
  report(operands, shape, bytes_of(result));
  if (!is_dry(result)) {
    result.zero_();
    if (operands.bias != nullptr) result.add_(*operands.bias);
  }
  accumulate_mixed(result, operands, shape);
  return result;
}

void Gemm::accumulate(at::Tensor& sum, const Operands& operands) {
  const Shape shape = checked_shape(operands);
  SOTTO_ASSERT(operands.bias == nullptr, "an accumulated product takes no bias");
  check_result(sum, shape);
  report(operands, shape, 2.0 * bytes_of(sum));
  if (sum.scalar_type() != operands.a.scalar_type()) {
    SOTTO_ASSERT(sum.scalar_type() == at::kFloat, "a sum of type {}",
                 c10::toString(sum.scalar_type()));
    accumulate_mixed(sum, operands, shape);
    return;
  }
  const device::LibraryCall call("gemm", sum.device().type(), library_bytes_for(sum, shape));
  if (is_dry(sum)) return;
  detail::gemm_accumulate(sum, operands);
}

}  // namespace sotto::kernels
