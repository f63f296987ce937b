#include "sotto/kernels/norm/rms_norm.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/norm/norm_arrays.h"

namespace sotto::kernels {

namespace detail {
void rms_norm_forward_cpu(const at::Tensor& x, const at::Tensor& gamma, double epsilon,
                          const RmsNorm::Result& result);
void rms_norm_backward_cpu(const RmsNorm::BackwardInputs& in, const at::Tensor& grad_gamma,
                           const at::Tensor& dx, const at::Tensor& partial);
SOTTO_CUDA_ENTRY void rms_norm_forward_cuda(const RowNormForward& in, void* stream);
SOTTO_CUDA_ENTRY void rms_norm_backward_cuda(const RowNormBackward& in, void* stream);
}  // namespace detail

RmsNorm::Result RmsNorm::forward(const at::Tensor& x, const at::Tensor& gamma, double epsilon) {
  check_rows(x, "x");
  const int64_t rows = x.size(0);
  const int64_t width = x.size(1);
  check_float_vector(gamma, width, "gamma");
  report_cost("rms_norm.forward",
              {.flops = 5.0 * static_cast<double>(x.numel()), .bytes = 2.0 * bytes_of(x)});

  Result result{.y = make_result({rows, width}, x), .rstd = make_float_result({rows}, x)};
  if (is_dry(x)) return result;
  if (x.is_cuda()) {
    detail::rms_norm_forward_cuda({.x = cuda_array(x),
                                   .y = cuda_array(result.y),
                                   .gamma = cuda_array(gamma),
                                   .beta = {},
                                   .mean = {},
                                   .rstd = cuda_array(result.rstd),
                                   .epsilon = static_cast<float>(epsilon)},
                                  device::current_cuda_stream());
  } else {
    detail::rms_norm_forward_cpu(x, gamma, epsilon, result);
  }
  return result;
}

at::Tensor RmsNorm::backward(const BackwardInputs& in, at::Tensor& grad_gamma) {
  check_rows(in.x, "x");
  check_same(in.x, in.dy, "dy");
  const int64_t rows = in.x.size(0);
  const int64_t width = in.x.size(1);
  check_float_vector(in.rstd, rows, "rstd");
  check_float_vector(in.gamma, width, "gamma");
  check_float_vector(grad_gamma, width, "gradient of gamma");
  if (in.residual != nullptr) check_same(in.x, *in.residual, "residual");
  const double moved = in.residual != nullptr ? 4.0 : 3.0;
  report_cost("rms_norm.backward",
              {.flops = 12.0 * static_cast<double>(in.x.numel()), .bytes = moved * bytes_of(in.x)});

  at::Tensor dx = make_result({rows, width}, in.x);
  const at::Tensor partial =
      make_workspace({num_row_slabs(rows), width}, in.x.options().dtype(at::kFloat));
  if (is_dry(in.x)) return dx;
  if (in.x.is_cuda()) {
    detail::rms_norm_backward_cuda(
        {.dy = cuda_array(in.dy),
         .x = cuda_array(in.x),
         .residual = in.residual == nullptr ? CudaArray{} : cuda_array(*in.residual),
         .dx = cuda_array(dx),
         .mean = {},
         .rstd = cuda_array(in.rstd),
         .gamma = cuda_array(in.gamma),
         .partial = cuda_array(partial),
         .grad_gamma = cuda_array(grad_gamma),
         .grad_beta = {},
         .num_slabs = partial.size(0)},
        device::current_cuda_stream());
  } else {
    detail::rms_norm_backward_cpu(in, grad_gamma, dx, partial);
  }
  return dx;
}

}  // namespace sotto::kernels
