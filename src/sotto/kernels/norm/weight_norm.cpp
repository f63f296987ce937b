#include "sotto/kernels/norm/weight_norm.h"

#include <ATen/ATen.h>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/norm/weight_norm_arrays.h"

namespace sotto::kernels {

namespace detail {
// All weights are [D C, K]. `space` holds the sums of the slabs, then one or two factors per tap.
void weight_norm_forward_cpu(const at::Tensor& v, const at::Tensor& g,
                             const WeightNorm::Result& result, const at::Tensor& space);
void weight_norm_backward_cpu(const WeightNorm::BackwardInputs& in, const at::Tensor& space,
                              const WeightNorm::Gradients& gradients);
SOTTO_CUDA_ENTRY void weight_norm_forward_cuda(const WeightNormForward& in, void* stream);
SOTTO_CUDA_ENTRY void weight_norm_backward_cuda(const WeightNormBackward& in, void* stream);
}  // namespace detail

namespace {

// Returns a weight [D, C, K] as rows [D C, K].
at::Tensor rows_of(const at::Tensor& weight, std::string_view name) {
  SOTTO_ASSERT(weight.dim() == 3 && weight.is_contiguous(), "{} has {} axes", name, weight.dim());
  at::Tensor rows = weight.view({weight.size(0) * weight.size(1), weight.size(2)});
  check_rows(rows, name);
  return rows;
}

at::Tensor make_space(const at::Tensor& rows, int64_t num_factors) {
  return make_workspace({num_row_slabs(rows.size(0)) + num_factors, rows.size(1)},
                        rows.options().dtype(at::kFloat));
}

}  // namespace

WeightNorm::Result WeightNorm::forward(const at::Tensor& v, const at::Tensor& g,
                                       at::ScalarType type) {
  const at::Tensor v_rows = rows_of(v, "v");
  check_float_vector(g, v.size(2), "g");
  Result result{.w = at::empty(v.sizes(), v.options().dtype(type)),
                .norm = make_float_result({v.size(2)}, v)};
  const at::Tensor w_rows = rows_of(result.w, "w");
  const at::Tensor space = make_space(v_rows, 1);
  report_cost("weight_norm.forward", {.flops = 3.0 * static_cast<double>(v.numel()),
                                      .bytes = 2.0 * bytes_of(v) + bytes_of(result.w)});
  if (is_dry(v)) return result;
  if (v.is_cuda()) {
    detail::weight_norm_forward_cuda({.v = cuda_array(v_rows),
                                      .w = cuda_array(w_rows),
                                      .g = cuda_array(g),
                                      .norm = cuda_array(result.norm),
                                      .space = cuda_array(space)},
                                     device::current_cuda_stream());
  } else {
    detail::weight_norm_forward_cpu(v_rows, g, {.w = w_rows, .norm = result.norm}, space);
  }
  return result;
}

void WeightNorm::backward(const BackwardInputs& in, const Gradients& gradients) {
  const at::Tensor v_rows = rows_of(in.v, "v");
  const at::Tensor dw_rows = rows_of(in.dw, "dw");
  at::Tensor grad_rows = rows_of(gradients.v, "the gradient of v");
  check_same(dw_rows, grad_rows, "the gradient of v");
  SOTTO_ASSERT(in.dw.sizes() == in.v.sizes() && in.dw.scalar_type() == at::kFloat,
               "dw has {} values in {} for {}", in.dw.numel(), c10::toString(in.dw.scalar_type()),
               in.v.numel());
  check_float_vector(in.g, in.v.size(2), "g");
  check_float_vector(in.norm, in.v.size(2), "norm");
  check_float_vector(gradients.g, in.v.size(2), "the gradient of g");
  const at::Tensor space = make_space(v_rows, 2);
  report_cost("weight_norm.backward",
              {.flops = 6.0 * static_cast<double>(in.v.numel()),
               .bytes = 2.0 * (bytes_of(in.dw) + bytes_of(in.v) + bytes_of(gradients.v))});
  if (is_dry(in.v)) return;
  if (in.v.is_cuda()) {
    detail::weight_norm_backward_cuda({.dw = cuda_array(dw_rows),
                                       .v = cuda_array(v_rows),
                                       .g = cuda_array(in.g),
                                       .norm = cuda_array(in.norm),
                                       .space = cuda_array(space),
                                       .grad_v = cuda_array(grad_rows),
                                       .grad_g = cuda_array(gradients.g)},
                                      device::current_cuda_stream());
  } else {
    detail::weight_norm_backward_cpu({.dw = dw_rows, .v = v_rows, .g = in.g, .norm = in.norm},
                                     space, {.v = grad_rows, .g = gradients.g});
  }
}

}  // namespace sotto::kernels
