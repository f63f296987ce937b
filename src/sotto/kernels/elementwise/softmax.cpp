#include "sotto/kernels/elementwise/softmax.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"

namespace sotto::kernels {

namespace detail {
void softmax_forward_cpu(const at::Tensor& x, const at::Tensor& y);
void softmax_backward_cpu(const at::Tensor& dy, const at::Tensor& y, const at::Tensor& dx);
void softmax_forward_cuda(const CudaArray& x, const CudaArray& y, void* stream);
void softmax_backward_cuda(const CudaArray& dy, const CudaArray& y, const CudaArray& dx,
                           void* stream);
}  // namespace detail

at::Tensor Softmax::forward(const at::Tensor& x) {
  check_rows(x, "x");
  report_cost("softmax.forward",
              {.flops = 22.0 * static_cast<double>(x.numel()), .bytes = 2.0 * bytes_of(x)});
  at::Tensor y = make_result(x.sizes(), x);
  if (is_dry(x)) return y;
  if (x.is_cuda()) {
    detail::softmax_forward_cuda(cuda_array(x), cuda_array(y), device::current_cuda_stream());
  } else {
    detail::softmax_forward_cpu(x, y);
  }
  return y;
}

at::Tensor Softmax::backward(const at::Tensor& dy, const at::Tensor& y) {
  check_rows(y, "y");
  check_same(y, dy, "dy");
  report_cost("softmax.backward",
              {.flops = 4.0 * static_cast<double>(y.numel()), .bytes = 3.0 * bytes_of(y)});
  at::Tensor dx = make_result(y.sizes(), y);
  if (is_dry(y)) return dx;
  if (y.is_cuda()) {
    detail::softmax_backward_cuda(cuda_array(dy), cuda_array(y), cuda_array(dx),
                                  device::current_cuda_stream());
  } else {
    detail::softmax_backward_cpu(dy, y, dx);
  }
  return dx;
}

}  // namespace sotto::kernels
