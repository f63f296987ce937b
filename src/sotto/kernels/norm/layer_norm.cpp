#include "sotto/kernels/norm/layer_norm.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/norm/norm_arrays.h"

namespace sotto::kernels {

namespace detail {
void layer_norm_forward_cpu(const at::Tensor& x, const LayerNorm::Parameters& parameters,
                            const LayerNorm::Result& result);
void layer_norm_backward_cpu(const LayerNorm::BackwardInputs& in,
                             const LayerNorm::Gradients& gradients, const at::Tensor& dx,
                             const at::Tensor& partial);
SOTTO_CUDA_ENTRY void layer_norm_forward_cuda(const RowNormForward& in, void* stream);
SOTTO_CUDA_ENTRY void layer_norm_backward_cuda(const RowNormBackward& in, void* stream);
}  // namespace detail

LayerNorm::Result LayerNorm::forward(const at::Tensor& x, const Parameters& parameters) {
  check_rows(x, "x");
  const int64_t rows = x.size(0);
  const int64_t width = x.size(1);
  check_float_vector(parameters.gamma, width, "gamma");
  check_float_vector(parameters.beta, width, "beta");
  report_cost("layer_norm.forward",
              {.flops = 8.0 * static_cast<double>(x.numel()), .bytes = 2.0 * bytes_of(x)});

  Result result{.y = make_result({rows, width}, x),
                .mean = make_float_result({rows}, x),
                .rstd = make_float_result({rows}, x)};
  if (is_dry(x)) return result;
  if (x.is_cuda()) {
    detail::layer_norm_forward_cuda({.x = cuda_array(x),
                                     .y = cuda_array(result.y),
                                     .gamma = cuda_array(parameters.gamma),
                                     .beta = cuda_array(parameters.beta),
                                     .mean = cuda_array(result.mean),
                                     .rstd = cuda_array(result.rstd),
                                     .epsilon = static_cast<float>(parameters.epsilon)},
                                    device::current_cuda_stream());
  } else {
    detail::layer_norm_forward_cpu(x, parameters, result);
  }
  return result;
}

at::Tensor LayerNorm::backward(const BackwardInputs& in, const Gradients& gradients) {
  check_rows(in.x, "x");
  check_same(in.x, in.dy, "dy");
  const int64_t rows = in.x.size(0);
  const int64_t width = in.x.size(1);
  check_float_vector(in.mean, rows, "mean");
  check_float_vector(in.rstd, rows, "rstd");
  check_float_vector(in.gamma, width, "gamma");
  check_float_vector(gradients.gamma, width, "gradient of gamma");
  check_float_vector(gradients.beta, width, "gradient of beta");
  if (in.residual != nullptr) check_same(in.x, *in.residual, "residual");
  const double moved = in.residual != nullptr ? 4.0 : 3.0;
  report_cost("layer_norm.backward",
              {.flops = 17.0 * static_cast<double>(in.x.numel()), .bytes = moved * bytes_of(in.x)});

  at::Tensor dx = make_result({rows, width}, in.x);
  const at::Tensor partial =
      make_workspace({num_row_slabs(rows), 2, width}, in.x.options().dtype(at::kFloat));
  if (is_dry(in.x)) return dx;
  if (in.x.is_cuda()) {
    detail::layer_norm_backward_cuda(
        {.dy = cuda_array(in.dy),
         .x = cuda_array(in.x),
         .residual = in.residual == nullptr ? CudaArray{} : cuda_array(*in.residual),
         .dx = cuda_array(dx),
         .mean = cuda_array(in.mean),
         .rstd = cuda_array(in.rstd),
         .gamma = cuda_array(in.gamma),
         .partial = cuda_array(partial),
         .grad_gamma = cuda_array(gradients.gamma),
         .grad_beta = cuda_array(gradients.beta),
         .num_slabs = partial.size(0)},
        device::current_cuda_stream());
  } else {
    detail::layer_norm_backward_cpu(in, gradients, dx, partial);
  }
  return dx;
}

}  // namespace sotto::kernels
