#include "sotto/kernels/elementwise/glu.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void glu_forward_cpu(const at::Tensor& x, const at::Tensor& y);
void glu_backward_cpu(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx);
SOTTO_CUDA_ENTRY void glu_forward_cuda(const CudaArray& x, const CudaArray& y, void* stream);
SOTTO_CUDA_ENTRY void glu_backward_cuda(const CudaArray& dy, const CudaArray& x,
                                        const CudaArray& dx, void* stream);
}  // namespace detail

at::Tensor Glu::forward(const at::Tensor& x) {
  check_rows(x, "x");
  SOTTO_ASSERT(x.size(1) % 2 == 0, "x has width {}", x.size(1));
  report_cost("glu.forward",
              {.flops = 11.0 * static_cast<double>(x.numel()), .bytes = 1.5 * bytes_of(x)});
  at::Tensor y = make_result({x.size(0), x.size(1) / 2}, x);
  if (is_dry(x)) return y;
  if (x.is_cuda()) {
    detail::glu_forward_cuda(cuda_array(x), cuda_array(y), device::current_cuda_stream());
  } else {
    detail::glu_forward_cpu(x, y);
  }
  return y;
}

at::Tensor Glu::backward(const at::Tensor& dy, const at::Tensor& x) {
  check_rows(x, "x");
  check_rows(dy, "dy");
  SOTTO_ASSERT(dy.size(0) == x.size(0) && dy.size(1) * 2 == x.size(1), "dy has width {} for {}",
               dy.size(1), x.size(1));
  report_cost("glu.backward",
              {.flops = 14.0 * static_cast<double>(x.numel()), .bytes = 2.5 * bytes_of(x)});
  at::Tensor dx = make_result(x.sizes(), x);
  if (is_dry(x)) return dx;
  if (x.is_cuda()) {
    detail::glu_backward_cuda(cuda_array(dy), cuda_array(x), cuda_array(dx),
                              device::current_cuda_stream());
  } else {
    detail::glu_backward_cpu(dy, x, dx);
  }
  return dx;
}

}  // namespace sotto::kernels
