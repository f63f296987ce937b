#include "sotto/kernels/norm/group_norm.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/norm/norm_arrays.h"

namespace sotto::kernels {

namespace detail {
void group_norm_forward_cpu(const at::Tensor& x, const Packing& packing,
                            const GroupNorm::Parameters& parameters,
                            const GroupNorm::Result& result);
void group_norm_backward_cpu(const GroupNorm::BackwardInputs& in, const Packing& packing,
                             const at::Tensor& dx, const at::Tensor& partial);
void group_norm_add_gradients_cpu(const at::Tensor& partial, const GroupNorm::Gradients& gradients);
SOTTO_CUDA_ENTRY void group_norm_forward_cuda(const GroupNormForward& in, const CudaPack& pack,
                                              void* stream);
SOTTO_CUDA_ENTRY void group_norm_backward_cuda(const GroupNormBackward& in, const CudaPack& pack,
                                               void* stream);
}  // namespace detail

namespace {

// Allocates fp32 sums of `width` values for each piece of the pack.
at::Tensor make_pieces(const Packing& packing, int64_t width, const at::Tensor& like) {
  const int64_t pieces = first_piece_of(packing.num_utterances(), packing.num_frames());
  return make_workspace({pieces, width}, like.options().dtype(at::kFloat));
}

}  // namespace

GroupNorm::Result GroupNorm::forward(const at::Tensor& x, const Packing& packing,
                                     const Parameters& parameters) {
  check_rows(x, "x");
  SOTTO_ASSERT(x.size(0) == packing.num_frames(), "{} rows for {} frames", x.size(0),
               packing.num_frames());
  SOTTO_ASSERT(parameters.num_groups > 0 && x.size(1) % parameters.num_groups == 0,
               "{} channels in {} groups", x.size(1), parameters.num_groups);
  check_float_vector(parameters.gamma, x.size(1), "gamma");
  check_float_vector(parameters.beta, x.size(1), "beta");
  // Statistics take two passes over an utterance, which may not fit into a cache: three reads and
  // one write.
  report_cost("group_norm.forward",
              {.flops = 8.0 * static_cast<double>(x.numel()), .bytes = 4.0 * bytes_of(x)});

  Result result{.y = make_result(x.sizes(), x),
                .mean = make_float_result({packing.num_utterances(), parameters.num_groups}, x),
                .rstd = make_float_result({packing.num_utterances(), parameters.num_groups}, x)};
  const at::Tensor pieces = make_pieces(packing, x.size(1), x);
  if (is_dry(x)) return result;
  if (x.is_cuda()) {
    detail::group_norm_forward_cuda({.x = cuda_array(x),
                                     .y = cuda_array(result.y),
                                     .gamma = cuda_array(parameters.gamma),
                                     .beta = cuda_array(parameters.beta),
                                     .mean = cuda_array(result.mean),
                                     .rstd = cuda_array(result.rstd),
                                     .pieces = cuda_array(pieces),
                                     .epsilon = parameters.epsilon},
                                    cuda_pack(packing), device::current_cuda_stream());
  } else {
    detail::group_norm_forward_cpu(x, packing, parameters, result);
  }
  return result;
}

at::Tensor GroupNorm::backward(const BackwardInputs& in, const Packing& packing,
                               const Gradients& gradients) {
  check_rows(in.x, "x");
  check_same(in.x, in.dy, "dy");
  const int64_t width = in.x.size(1);
  check_float_vector(in.gamma, width, "gamma");
  check_float_vector(gradients.gamma, width, "gradient of gamma");
  check_float_vector(gradients.beta, width, "gradient of beta");
  report_cost("group_norm.backward",
              {.flops = 17.0 * static_cast<double>(in.x.numel()), .bytes = 5.0 * bytes_of(in.x)});

  at::Tensor dx = make_result(in.x.sizes(), in.x);
  const at::Tensor partial =
      make_workspace({packing.num_utterances(), 2, width}, in.x.options().dtype(at::kFloat));
  const at::Tensor pieces = make_pieces(packing, 2 * width, in.x);
  const at::Tensor group_means = make_workspace({packing.num_utterances(), 2 * in.mean.size(1)},
                                                in.x.options().dtype(at::kFloat));
  if (is_dry(in.x)) return dx;
  if (in.x.is_cuda()) {
    detail::group_norm_backward_cuda({.dy = cuda_array(in.dy),
                                      .x = cuda_array(in.x),
                                      .dx = cuda_array(dx),
                                      .mean = cuda_array(in.mean),
                                      .rstd = cuda_array(in.rstd),
                                      .gamma = cuda_array(in.gamma),
                                      .pieces = cuda_array(pieces),
                                      .partial = cuda_array(partial),
                                      .group_means = cuda_array(group_means),
                                      .grad_gamma = cuda_array(gradients.gamma),
                                      .grad_beta = cuda_array(gradients.beta)},
                                     cuda_pack(packing), device::current_cuda_stream());
  } else {
    detail::group_norm_backward_cpu(in, packing, dx, partial);
    detail::group_norm_add_gradients_cpu(partial, gradients);
  }
  return dx;
}

}  // namespace sotto::kernels
