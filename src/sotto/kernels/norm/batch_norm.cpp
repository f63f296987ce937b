#include "sotto/kernels/norm/batch_norm.h"

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/norm/batch_norm_arrays.h"
#include "sotto/kernels/norm/batch_norm_task.h"

namespace sotto::kernels {

namespace detail {
void batch_statistics_cpu(const at::Tensor& x, const BatchNorm::Statistics& statistics,
                          const BatchNorm::Stage* stage, const at::Tensor& partial);
void batch_norm_commit_cpu(const BatchNorm::Stage& stage, const BatchNorm::Running& running);
void batch_norm_forward_cpu(const at::Tensor& x, const BatchNorm::Statistics& statistics,
                            const BatchNorm::Parameters& parameters, const at::Tensor& y);
void batch_norm_backward_cpu(const BatchNormTask& task);
SOTTO_CUDA_ENTRY void batch_statistics_cuda(const BatchStatistics& in, void* stream);
SOTTO_CUDA_ENTRY void batch_norm_commit_cuda(const BatchNormCommit& in, void* stream);
SOTTO_CUDA_ENTRY void batch_norm_forward_cuda(const BatchNormForward& in, void* stream);
SOTTO_CUDA_ENTRY void batch_norm_backward_cuda(const BatchNormBackward& in, bool has_constants,
                                               void* stream);
}  // namespace detail

namespace {

void check_statistics(const BatchNorm::Statistics& statistics, int64_t width) {
  check_float_vector(statistics.mean, width, "mean");
  check_float_vector(statistics.variance, width, "variance");
}

at::Tensor make_slabs(const at::Tensor& x, int64_t vectors) {
  return make_workspace({num_row_slabs(x.size(0)), vectors * x.size(1)},
                        x.options().dtype(at::kFloat));
}

}  // namespace

BatchNorm::Statistics BatchNorm::statistics(const at::Tensor& x, Stage* stage) {
  check_rows(x, "x");
  const int64_t width = x.size(1);
  if (stage != nullptr) {
    check_float_vector(stage->mean, width, "staged mean");
    check_float_vector(stage->variance, width, "staged variance");
    stage->rows += x.size(0);
  }
  // Two passes over a slab, which is small enough for a cache.
  report_cost("batch_norm.statistics",
              {.flops = 5.0 * static_cast<double>(x.numel()), .bytes = bytes_of(x)});
  Statistics result{.mean = make_float_result({width}, x),
                    .variance = make_float_result({width}, x)};
  const at::Tensor partial = make_slabs(x, kSlabStatistics);
  if (is_dry(x)) return result;
  if (x.is_cuda()) {
    const bool has_stage = stage != nullptr;
    const BatchStatistics arrays{
        .x = cuda_array(x),
        .partial = cuda_array(partial),
        .mean = cuda_array(result.mean),
        .variance = cuda_array(result.variance),
        .staged_mean = has_stage ? cuda_array(stage->mean) : CudaArray{},
        .staged_variance = has_stage ? cuda_array(stage->variance) : CudaArray{},
        .staged_rows = has_stage ? stage->rows : 0};
    detail::batch_statistics_cuda(arrays, device::current_cuda_stream());
  } else {
    detail::batch_statistics_cpu(x, result, stage, partial);
  }
  return result;
}

void BatchNorm::commit(const Stage& stage, const Running& running) {
  SOTTO_ASSERT(stage.rows > 0, "a stage without rows is committed");
  const int64_t width = stage.mean.numel();
  check_statistics({.mean = stage.mean, .variance = stage.variance}, width);
  check_float_vector(running.mean, width, "running mean");
  check_float_vector(running.variance, width, "running variance");
  report_cost("batch_norm.commit",
              {.flops = 6.0 * static_cast<double>(width), .bytes = 6.0 * bytes_of(stage.mean)});
  if (is_dry(stage.mean)) return;
  if (stage.mean.is_cuda()) {
    detail::batch_norm_commit_cuda({.staged_mean = cuda_array(stage.mean),
                                    .staged_variance = cuda_array(stage.variance),
                                    .staged_rows = stage.rows,
                                    .running_mean = cuda_array(running.mean),
                                    .running_variance = cuda_array(running.variance),
                                    .momentum = running.momentum},
                                   device::current_cuda_stream());
  } else {
    detail::batch_norm_commit_cpu(stage, running);
  }
}

at::Tensor BatchNorm::forward(const at::Tensor& x, const Statistics& statistics,
                              const Parameters& parameters) {
  check_rows(x, "x");
  check_statistics(statistics, x.size(1));
  check_float_vector(parameters.gamma, x.size(1), "gamma");
  check_float_vector(parameters.beta, x.size(1), "beta");
  report_cost("batch_norm.forward",
              {.flops = 3.0 * static_cast<double>(x.numel()), .bytes = 2.0 * bytes_of(x)});
  at::Tensor y = make_result(x.sizes(), x);
  if (is_dry(x)) return y;
  if (x.is_cuda()) {
    detail::batch_norm_forward_cuda({.x = cuda_array(x),
                                     .y = cuda_array(y),
                                     .mean = cuda_array(statistics.mean),
                                     .variance = cuda_array(statistics.variance),
                                     .gamma = cuda_array(parameters.gamma),
                                     .beta = cuda_array(parameters.beta),
                                     .epsilon = static_cast<float>(parameters.epsilon)},
                                    device::current_cuda_stream());
  } else {
    detail::batch_norm_forward_cpu(x, statistics, parameters, y);
  }
  return y;
}

at::Tensor BatchNorm::backward(const BackwardInputs& in, const Gradients& gradients, Kind kind) {
  check_rows(in.x, "x");
  check_same(in.x, in.dy, "dy");
  const int64_t width = in.x.size(1);
  check_statistics(in.statistics, width);
  check_float_vector(in.gamma, width, "gamma");
  check_float_vector(gradients.gamma, width, "gradient of gamma");
  check_float_vector(gradients.beta, width, "gradient of beta");
  // With constants dx needs no sums, and both are computed in one pass.
  const bool has_constants = kind == Kind::kConstant;
  report_cost("batch_norm.backward", {.flops = 10.0 * static_cast<double>(in.x.numel()),
                                      .bytes = (has_constants ? 3.0 : 5.0) * bytes_of(in.x)});
  at::Tensor dx = make_result(in.x.sizes(), in.x);
  const at::Tensor partial = make_slabs(in.x, 2);
  const at::Tensor totals = make_workspace({2, width}, in.x.options().dtype(at::kFloat));
  if (is_dry(in.x)) return dx;
  if (in.x.is_cuda()) {
    detail::batch_norm_backward_cuda({.dy = cuda_array(in.dy),
                                      .x = cuda_array(in.x),
                                      .dx = cuda_array(dx),
                                      .mean = cuda_array(in.statistics.mean),
                                      .variance = cuda_array(in.statistics.variance),
                                      .gamma = cuda_array(in.gamma),
                                      .partial = cuda_array(partial),
                                      .totals = cuda_array(totals),
                                      .grad_gamma = cuda_array(gradients.gamma),
                                      .grad_beta = cuda_array(gradients.beta),
                                      .epsilon = static_cast<float>(in.epsilon)},
                                     has_constants, device::current_cuda_stream());
  } else {
    detail::batch_norm_backward_cpu({.in = in,
                                     .gradients = gradients,
                                     .kind = kind,
                                     .dx = dx,
                                     .partial = partial,
                                     .totals = totals});
  }
  return dx;
}

}  // namespace sotto::kernels
