#include "sotto/kernels/elementwise/cast.h"

#include <ATen/ATen.h>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void cast_cpu(const at::Tensor& x, const at::Tensor& y);
void cast_add_cpu(const at::Tensor& x, const at::Tensor& sum);
SOTTO_CUDA_ENTRY void cast_cuda(const CudaArray& x, const CudaArray& y, void* stream);
SOTTO_CUDA_ENTRY void cast_add_cuda(const CudaArray& x, const CudaArray& sum, void* stream);
}  // namespace detail

namespace {

bool is_known(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

void check(const at::Tensor& x, at::ScalarType type) {
  SOTTO_ASSERT(is_known(x.scalar_type()) && is_known(type) && x.scalar_type() != type,
               "a cast from {} to {}", c10::toString(x.scalar_type()), c10::toString(type));
  SOTTO_ASSERT(x.is_contiguous(), "x is not contiguous");
}

}  // namespace

at::Tensor Cast::to(const at::Tensor& x, at::ScalarType type) {
  check(x, type);
  at::Tensor y = at::empty(x.sizes(), x.options().dtype(type));
  report_cost("cast",
              {.flops = static_cast<double>(x.numel()), .bytes = bytes_of(x) + bytes_of(y)});
  if (is_dry(x)) return y;
  if (x.is_cuda()) {
    detail::cast_cuda(cuda_array(x), cuda_array(y), device::current_cuda_stream());
  } else {
    detail::cast_cpu(x, y);
  }
  return y;
}

void Cast::accumulate(at::Tensor& sum, const at::Tensor& x) {
  check(x, sum.scalar_type());
  SOTTO_ASSERT(sum.is_contiguous() && sum.sizes() == x.sizes(), "a sum of {} values for {}",
               sum.numel(), x.numel());
  report_cost("cast", {.flops = static_cast<double>(x.numel()),
                       .bytes = bytes_of(x) + 2.0 * bytes_of(sum)});
  if (is_dry(x)) return;
  if (x.is_cuda()) {
    detail::cast_add_cuda(cuda_array(x), cuda_array(sum), device::current_cuda_stream());
  } else {
    detail::cast_add_cpu(x, sum);
  }
}

}  // namespace sotto::kernels
