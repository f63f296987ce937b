#include "sotto/kernels/adamw.h"

#include <cmath>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/adamw_factors.h"
#include "sotto/kernels/kernel.h"

namespace sotto::kernels {

namespace detail {
void adamw_cpu(const AdamW::Range& range, const AdamWFactors& factors, double square_sum);
void adamw_cuda(const CudaAdamWRange& range, const AdamWFactors& factors, const double* square_sum,
                void* stream);
}  // namespace detail

namespace {

void check(const AdamW::Range& range, const at::Tensor& square_sum) {
  const int64_t size = range.weights.numel();
  if (range.remainder == nullptr) {
    check_float_vector(range.weights, size, "weights");
  } else {
    const at::Tensor& remainder = *range.remainder;
    SOTTO_ASSERT(range.weights.dim() == 1 && range.weights.is_contiguous() &&
                     range.weights.scalar_type() == at::kBFloat16,
                 "weights with a remainder are {}", c10::toString(range.weights.scalar_type()));
    SOTTO_ASSERT(remainder.dim() == 1 && remainder.size(0) == size && remainder.is_contiguous() &&
                     remainder.scalar_type() == at::kShort,
                 "a remainder of {} values in {}", remainder.numel(),
                 c10::toString(remainder.scalar_type()));
  }
  check_float_vector(range.gradients, size, "gradients");
  check_float_vector(range.first_moment, size, "first_moment");
  check_float_vector(range.second_moment, size, "second_moment");
  SOTTO_ASSERT(square_sum.numel() == 1 && square_sum.scalar_type() == at::kDouble &&
                   square_sum.device() == range.weights.device(),
               "a square sum of {} values in {} on {}", square_sum.numel(),
               c10::toString(square_sum.scalar_type()), square_sum.device().str());
}

AdamWFactors factors_of(const AdamW::Coefficients& c) {
  SOTTO_ASSERT(c.step >= 1, "step {}, counted from 1", c.step);
  SOTTO_ASSERT(c.beta1 >= 0 && c.beta1 < 1 && c.beta2 >= 0 && c.beta2 < 1, "betas {} and {}",
               c.beta1, c.beta2);
  SOTTO_ASSERT(c.rate >= 0 && c.epsilon >= 0 && c.weight_decay >= 0,
               "rate {}, epsilon {}, decay {}", c.rate, c.epsilon, c.weight_decay);
  SOTTO_ASSERT(c.gradient_scale >= 0 && c.clip_norm >= 0, "gradient scale {}, clip norm {}",
               c.gradient_scale, c.clip_norm);
  const auto step = static_cast<double>(c.step);
  return {.keep = static_cast<float>(1.0 - c.rate * c.weight_decay),
          .blend1 = static_cast<float>(1.0 - c.beta1),
          .beta2 = static_cast<float>(c.beta2),
          .blend2 = static_cast<float>(1.0 - c.beta2),
          .root = static_cast<float>(std::sqrt(1.0 - std::pow(c.beta2, step))),
          .epsilon = static_cast<float>(c.epsilon),
          .stride = static_cast<float>(c.rate / (1.0 - std::pow(c.beta1, step))),
          .gradient_scale = c.gradient_scale,
          .clip_norm = c.clip_norm};
}

CudaAdamWRange cuda_range(const AdamW::Range& range) {
  return {.weights = range.weights.mutable_data_ptr(),
          .remainder =
              range.remainder == nullptr ? nullptr : range.remainder->mutable_data_ptr<int16_t>(),
          .gradients = range.gradients.const_data_ptr<float>(),
          .first_moment = range.first_moment.mutable_data_ptr<float>(),
          .second_moment = range.second_moment.mutable_data_ptr<float>(),
          .size = range.weights.numel()};
}

}  // namespace

void AdamW::update(const Range& range, const Coefficients& coefficients,
                   const at::Tensor& square_sum) {
  check(range, square_sum);
  const AdamWFactors factors = factors_of(coefficients);
  // Weights and moments are read and written, the gradients only read. A remainder makes bf16
  // weights as long as fp32.
  const auto size = static_cast<double>(range.weights.numel());
  report_cost("adamw", {.flops = 15.0 * size, .bytes = 7.0 * sizeof(float) * size});
  if (is_dry(range.weights)) return;
  if (range.weights.is_cuda()) {
    detail::adamw_cuda(cuda_range(range), factors, square_sum.const_data_ptr<double>(),
                       device::current_cuda_stream());
  } else {
    detail::adamw_cpu(range, factors, *square_sum.const_data_ptr<double>());
  }
}

}  // namespace sotto::kernels
