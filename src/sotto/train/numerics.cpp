#include "sotto/train/numerics.h"

#include <ATen/Context.h>

#include <algorithm>

#include "sotto/core/error.h"

namespace sotto::train {

c10::ScalarType compute_type(Numerics numerics) {
  switch (numerics) {
    case Numerics::kBf16Exact: return at::kBFloat16;
    case Numerics::kFp16: return at::kHalf;
    case Numerics::kFp32:
    case Numerics::kTf32: break;
  }
  return at::kFloat;
}

c10::ScalarType weight_type(Numerics numerics) {
  return numerics == Numerics::kBf16Exact ? at::kBFloat16 : at::kFloat;
}

void check_numerics(Numerics numerics, const device::Target& target) {
  const auto refuse = [&](std::string found, std::string hint) {
    throw ConfigError({.attempted = "choosing the arithmetic of the run",
                       .found = std::move(found),
                       .hint = std::move(hint)});
  };
  if (numerics == Numerics::kTf32 && (!target.is_cuda() || target.capability < 80))
    refuse("numerics: tf32, which GPUs of capability 8.0 and later have, and this device has not",
           "Use numerics: fp32.");
  if (numerics == Numerics::kBf16Exact && !target.has_bf16())
    refuse(fmt::format("numerics: bf16-exact on a GPU of capability {}.{}, which has no bf16",
                       target.capability / 10, target.capability % 10),
           "Use numerics: fp16.");
}

void apply_numerics(Numerics numerics) {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(numerics == Numerics::kTf32);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
}

void LossScale::update(bool was_finite) {
  if (!is_dynamic_) return;
  ++steps_since_change_;
  if (!was_finite) {
    // Below 1 gradients overflow for another reason.
    value_ = std::max(1.0, value_ / 2.0);
    steps_since_change_ = 0;
  } else if (steps_since_change_ >= kStepsToDouble) {
    value_ = std::min(kLargest, value_ * 2.0);
    steps_since_change_ = 0;
  }
}

void LossScale::restore(double value, int64_t steps_since_change) {
  if (!is_dynamic_) return;
  value_ = value;
  steps_since_change_ = steps_since_change;
}

}  // namespace sotto::train
