#include "sotto/kernels/optimizer/adamw.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "sotto/device/cuda_device.h"
#include "sotto/kernels/base/kernel.h"
#include "sotto/kernels/optimizer/adamw_factors.h"
#include "sotto/kernels/optimizer/moment_map.h"

namespace sotto::kernels {

namespace detail {
void adamw_cpu(const AdamW::Range& range, const AdamWFactors& factors, double square_sum);
SOTTO_CUDA_ENTRY void adamw_cuda(const CudaAdamWRange& range, const AdamWFactors& factors,
                                 const double* square_sum, void* stream);
}  // namespace detail

namespace {

// Operations per value; and if moments are codes, of finding the nearest code in two maps, measured
// on a CPU (sotto_bench, adamw).
constexpr double kFlops = 15.0;
constexpr double kFlopsOfCodes = 150.0;

bool is_flat(const at::Tensor& tensor, int64_t size, std::initializer_list<at::ScalarType> types) {
  return tensor.dim() == 1 && tensor.size(0) == size && tensor.is_contiguous() &&
         std::ranges::find(types, tensor.scalar_type()) != types.end();
}

void check_moment(const at::Tensor& moment, const at::Tensor* scales, int64_t size) {
  const at::ScalarType type = scales == nullptr ? at::kFloat : at::kByte;
  SOTTO_ASSERT(is_flat(moment, size, {type}), "a moment of {} values in {} for {} in {}",
               moment.numel(), c10::toString(moment.scalar_type()), size, c10::toString(type));
  if (scales != nullptr) check_float_vector(*scales, num_moment_blocks(size), "scales");
}

void check(const AdamW::Range& range, const at::Tensor& square_sum) {
  const int64_t size = range.weights.numel();
  SOTTO_ASSERT(is_flat(range.weights, size, {at::kFloat, at::kBFloat16}), "weights are {}",
               c10::toString(range.weights.scalar_type()));
  if (range.remainder != nullptr) {
    SOTTO_ASSERT(range.weights.scalar_type() == at::kBFloat16 &&
                     is_flat(*range.remainder, size, {at::kShort, at::kByte}),
                 "a remainder of {} values in {} for {} weights in {}", range.remainder->numel(),
                 c10::toString(range.remainder->scalar_type()), size,
                 c10::toString(range.weights.scalar_type()));
  }
  SOTTO_ASSERT(is_flat(range.gradients, size, {at::kFloat, at::kBFloat16}),
               "{} gradients in {} for {} weights", range.gradients.numel(),
               c10::toString(range.gradients.scalar_type()), size);
  SOTTO_ASSERT((range.first_scales == nullptr) == (range.second_scales == nullptr),
               "one moment in fp32, the other in codes");
  check_moment(range.first_moment, range.first_scales, size);
  check_moment(range.second_moment, range.second_scales, size);
  SOTTO_ASSERT(range.first_value >= 0 && range.first_value % kMomentBlock == 0,
               "a range from value {} on", range.first_value);
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
          .inverse_root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(c.beta2, step))),
          .epsilon = static_cast<float>(c.epsilon),
          .stride = static_cast<float>(c.rate / (1.0 - std::pow(c.beta1, step))),
          .gradient_scale = c.gradient_scale,
          .clip_norm = c.clip_norm,
          .rounding = fold(c.rounding)};
}

CudaAdamWRange cuda_range(const AdamW::Range& range) {
  const auto type_of = [](const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kFloat ? ElementType::kFloat : ElementType::kBFloat16;
  };
  const auto data_of = [](const at::Tensor* tensor) {
    return tensor == nullptr ? nullptr : tensor->mutable_data_ptr();
  };
  return {.weights = range.weights.mutable_data_ptr(),
          .weight_type = type_of(range.weights),
          .remainder = data_of(range.remainder),
          .remainder_bits =
              range.remainder == nullptr ? 0 : static_cast<int>(8 * range.remainder->itemsize()),
          .gradients = range.gradients.const_data_ptr(),
          .gradient_type = type_of(range.gradients),
          .first_moment = range.first_moment.mutable_data_ptr(),
          .second_moment = range.second_moment.mutable_data_ptr(),
          .first_scales = static_cast<float*>(data_of(range.first_scales)),
          .second_scales = static_cast<float*>(data_of(range.second_scales)),
          .first_value = range.first_value,
          .size = range.weights.numel()};
}

// The gradients are read, everything else is read and written.
double bytes_moved(const AdamW::Range& range) {
  double bytes = bytes_of(range.gradients);
  for (const at::Tensor* tensor : {&range.weights, range.remainder, &range.first_moment,
                                   &range.second_moment, range.first_scales, range.second_scales})
    if (tensor != nullptr) bytes += 2.0 * bytes_of(*tensor);
  return bytes;
}

}  // namespace

void AdamW::update(const Range& range, const Coefficients& coefficients,
                   const at::Tensor& square_sum) {
  check(range, square_sum);
  const AdamWFactors factors = factors_of(coefficients);
  const double flops = range.first_scales == nullptr ? kFlops : kFlops + kFlopsOfCodes;
  report_cost("adamw", {.flops = flops * static_cast<double>(range.weights.numel()),
                        .bytes = bytes_moved(range),
                        .frequency = Frequency::kStep});
  if (is_dry(range.weights)) return;
  if (range.weights.is_cuda()) {
    detail::adamw_cuda(cuda_range(range), factors, square_sum.const_data_ptr<double>(),
                       device::current_cuda_stream());
  } else {
    detail::adamw_cpu(range, factors, *square_sum.const_data_ptr<double>());
  }
}

}  // namespace sotto::kernels
