#include "sotto/train/step/numerics.h"

#include <ATen/Context.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sotto/core/error.h"

namespace sotto::train {

namespace {

constexpr const char* kPreset = "preset";

// Throws for arithmetic that the device does not support.
[[noreturn]] void refuse_on(std::string found, std::string hint) {
  throw Infeasible({.attempted = "choosing the arithmetic of the run",
                    .found = std::move(found),
                    .hint = std::move(hint)});
}

[[noreturn]] void refuse_precision(std::string found, std::string hint) {
  throw ConfigError({.attempted = "choosing the arithmetic of the run",
                     .found = std::move(found),
                     .hint = std::move(hint)});
}

// Visits an option that is one of the names, or "preset" for none.
template <class Part, size_t N>
void visit_part(OptionVisitor& visitor, std::string_view key, std::optional<Part>& part,
                std::string_view help, const std::array<Named<Part>, N>& names) {
  std::vector<std::string> words = {kPreset};
  for (const Named<Part>& entry : names) words.emplace_back(entry.name);
  std::string word(part ? name_of(*part, names) : kPreset);
  visitor.choice(key, word, help, words);
  part = word == kPreset ? std::nullopt : std::optional<Part>(value_of(word, names));
}

}  // namespace

at::ScalarType Arithmetic::compute_type() const {
  switch (compute) {
    case Compute::kBf16: return at::kBFloat16;
    case Compute::kFp16: return at::kHalf;
    case Compute::kFp32:
    case Compute::kTf32: break;
  }
  return at::kFloat;
}

at::ScalarType Arithmetic::weight_type() const {
  return compute == Compute::kBf16 ? at::kBFloat16 : at::kFloat;
}

Arithmetic preset_of(Numerics numerics) {
  switch (numerics) {
    case Numerics::kFp32: return {};
    case Numerics::kTf32: return {.compute = Compute::kTf32};
    case Numerics::kBf16Exact: return {.compute = Compute::kBf16};
    case Numerics::kBf16Lean:
      return {.compute = Compute::kBf16,
              .remainder_bits = 8,
              .gradients = at::kBFloat16,
              .moments = optim::Moments::k8Bit};
    case Numerics::kFp16: return {.compute = Compute::kFp16};
  }
  SOTTO_ASSERT(false, "numerics of no known kind");
  return {};
}

void PrecisionOptions::visit(OptionVisitor& visitor) {
  visit_part(visitor, "compute", compute, "data type of matrix products and activations",
             kComputes);
  visit_part(visitor, "remainder_bits", remainder_bits,
             "bits kept in addition to bf16 weights; below 16, stochastic rounding",
             kRemainderBits);
  visit_part(visitor, "gradients", gradients, "data type of the gradients of large matrices",
             kGradientTypes);
  visit_part(visitor, "moments", moments,
             "data type of the optimizer's moments, for large matrices", optim::kMoments);
  visitor.value("small_below", small_below, "matrices with fewer values are always fp32",
                {.min = 1});
}

Arithmetic arithmetic_of(Numerics numerics, const PrecisionOptions& parts) {
  Arithmetic result = preset_of(numerics);
  result.compute = parts.compute.value_or(result.compute);
  result.remainder_bits = parts.remainder_bits.value_or(result.remainder_bits);
  result.gradients = parts.gradients.value_or(result.gradients);
  result.moments = parts.moments.value_or(result.moments);
  result.small_below = parts.small_below;
  if (result.compute == Compute::kBf16) return result;
  const std::string_view name = name_of(result.compute, kComputes);
  if (parts.remainder_bits)
    refuse_precision(
        fmt::format("remainder_bits: {} with {}, whose weights are fp32 and have no remainder",
                    *parts.remainder_bits, name),
        "Remove it, or use numerics: bf16-exact.");
  if (result.gradients == at::kBFloat16)
    refuse_precision(
        fmt::format("gradients: bf16 with {}: products add to gradients of their own type or to "
                    "fp32",
                    name),
        "Use precision.gradients: fp32, or numerics: bf16-lean.");
  result.remainder_bits = Arithmetic{}.remainder_bits;  // unused without bf16 weights
  return result;
}

void check_arithmetic(const Arithmetic& arithmetic, const device::Target& target) {
  if (arithmetic.compute == Compute::kTf32 && (!target.is_cuda() || target.capability < 80))
    refuse_on("tf32, which needs a GPU of capability 8.0 or later", "Use numerics: fp32.");
  if (arithmetic.compute == Compute::kBf16 && !target.has_bf16())
    refuse_on(fmt::format("bf16 on a GPU of capability {}.{}, which does not support it",
                          target.capability / 10, target.capability % 10),
              "Use numerics: fp16.");
}

void check_micro_batches(at::ScalarType gradients, int64_t num_micro_batches) {
  if (gradients == at::kFloat || num_micro_batches <= kMaxBf16Sums) return;
  refuse_precision(
      fmt::format("gradients: bf16 with a step of {} micro-batches, each of which rounds them",
                  num_micro_batches),
      fmt::format("Use precision.gradients: fp32, or at most {} micro-batches: raise --memory, "
                  "lower effective_batch, choose a tier that keeps less, or raise micro_batch "
                  "and max_frames if they are set.",
                  kMaxBf16Sums));
}

void apply_arithmetic(const Arithmetic& arithmetic) {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(arithmetic.compute == Compute::kTf32);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
}

void LossScale::update(bool was_finite) {
  if (!is_dynamic_) return;
  ++steps_since_change_;
  if (!was_finite) {
    value_ = std::max(kSmallest, value_ / 2.0);
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
