#include "sotto/kernels/norm/wave_norm.h"

#include <ATen/ATen.h>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/norm/wave_norm_arrays.h"

namespace sotto::kernels {

namespace detail {
void wave_statistics_cpu(const at::Tensor& samples, const Packing& packing,
                         const WaveNorm::Options& options, const at::Tensor& statistics);
void wave_fold_cpu(const WaveFold& in, at::ScalarType type);
void wave_backward_cpu(const WaveFold& in, at::ScalarType type);
SOTTO_CUDA_ENTRY void wave_statistics_cuda(const WaveStatistics& in, void* stream);
SOTTO_CUDA_ENTRY void wave_fold_cuda(const WaveFold& in, void* stream);
SOTTO_CUDA_ENTRY void wave_backward_cuda(const WaveFold& in, void* stream);
}  // namespace detail

namespace {

WaveFold fold_arrays(const at::Tensor& statistics, const WaveNorm::Parameters& parameters,
                     const WaveNorm::Folded& folded, const WaveNorm::Options& options) {
  return {.weight = cuda_array(parameters.weight),
          .gamma = parameters.gamma.const_data_ptr<float>(),
          .beta = parameters.beta.const_data_ptr<float>(),
          .statistics = statistics.const_data_ptr<double>(),
          .folded_weight = folded.weight.mutable_data_ptr<float>(),
          .folded_bias = folded.bias.mutable_data_ptr<float>(),
          .num_utterances = statistics.size(0),
          .epsilon = options.epsilon};
}

void check(const at::Tensor& statistics, const WaveNorm::Parameters& parameters,
           const WaveNorm::Options& options) {
  check_rows(parameters.weight, "weight");
  SOTTO_ASSERT(parameters.weight.size(1) == options.size, "a weight of {} taps, {} expected",
               parameters.weight.size(1), options.size);
  SOTTO_ASSERT(statistics.size(1) == options.size * (options.size + 1), "statistics of {} values",
               statistics.size(1));
  check_float_vector(parameters.gamma, parameters.weight.size(0), "gamma");
  check_float_vector(parameters.beta, parameters.weight.size(0), "beta");
}

}  // namespace

at::Tensor WaveNorm::statistics(const at::Tensor& samples, const Packing& packing,
                                const Options& options) {
  SOTTO_ASSERT(samples.dim() == 1 && samples.scalar_type() == at::kFloat &&
                   samples.size(0) == packing.num_frames(),
               "{} samples for a pack of {}", samples.numel(), packing.num_frames());
  for (const int64_t length : packing.lengths())
    SOTTO_ASSERT(length >= options.size, "{} samples for {} taps", length, options.size);
  const int64_t width = options.size * (options.size + 1);
  const auto in_double = samples.options().dtype(at::kDouble);
  at::Tensor statistics = at::empty({packing.num_utterances(), width}, in_double);
  const at::Tensor partial = make_workspace({packing.num_utterances(), kSlabs, width}, in_double);
  const double num_windows =
      static_cast<double>(samples.numel()) / static_cast<double>(options.stride);
  report_cost("wave_norm.statistics", {.flops = 2.0 * num_windows * static_cast<double>(width),
                                       .bytes = bytes_of(samples)});
  if (is_dry(samples)) return statistics;
  if (samples.is_cuda()) {
    detail::wave_statistics_cuda({.samples = samples.const_data_ptr<float>(),
                                  .pack = cuda_pack(packing),
                                  .partial = partial.mutable_data_ptr<double>(),
                                  .statistics = statistics.mutable_data_ptr<double>(),
                                  .size = options.size,
                                  .stride = options.stride,
                                  .num_slabs = kSlabs},
                                 device::current_cuda_stream());
  } else {
    detail::wave_statistics_cpu(samples, packing, options, statistics);
  }
  return statistics;
}

WaveNorm::Folded WaveNorm::fold(const at::Tensor& statistics, const Parameters& parameters,
                                const Options& options) {
  check(statistics, parameters, options);
  const int64_t outputs = parameters.weight.size(0);
  Folded folded{
      .weight = make_float_result({statistics.size(0), outputs, options.size}, parameters.weight),
      .bias = make_float_result({statistics.size(0), outputs}, parameters.weight)};
  report_cost("wave_norm.fold", {.flops = 2.0 * static_cast<double>(folded.weight.numel()) *
                                          static_cast<double>(options.size),
                                 .bytes = bytes_of(folded.weight)});
  if (is_dry(statistics)) return folded;
  const WaveFold arrays = fold_arrays(statistics, parameters, folded, options);
  if (statistics.is_cuda()) {
    detail::wave_fold_cuda(arrays, device::current_cuda_stream());
  } else {
    detail::wave_fold_cpu(arrays, parameters.weight.scalar_type());
  }
  return folded;
}

void WaveNorm::backward(const Folded& d_folded, const at::Tensor& statistics,
                        const Parameters& parameters, const Gradients& gradients,
                        const Options& options) {
  check(statistics, parameters, options);
  check_float_vector(gradients.gamma, parameters.weight.size(0), "gradient of gamma");
  check_float_vector(gradients.beta, parameters.weight.size(0), "gradient of beta");
  SOTTO_ASSERT(gradients.weight.sizes() == parameters.weight.sizes() &&
                   gradients.weight.scalar_type() == at::kFloat,
               "the weight's gradient is of another shape or type");
  report_cost("wave_norm.backward", {.flops = 4.0 * static_cast<double>(d_folded.weight.numel()) *
                                              static_cast<double>(options.size),
                                     .bytes = bytes_of(d_folded.weight)});
  if (is_dry(statistics)) return;
  WaveFold arrays = fold_arrays(statistics, parameters, d_folded, options);
  arrays.grad_weight = gradients.weight.mutable_data_ptr<float>();
  arrays.grad_gamma = gradients.gamma.mutable_data_ptr<float>();
  arrays.grad_beta = gradients.beta.mutable_data_ptr<float>();
  if (statistics.is_cuda()) {
    detail::wave_backward_cuda(arrays, device::current_cuda_stream());
  } else {
    detail::wave_backward_cpu(arrays, parameters.weight.scalar_type());
  }
}

}  // namespace sotto::kernels
