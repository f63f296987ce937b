// The arithmetic of a run: a named preset, and parts of it that are overridden individually. The
// budget never changes it.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <optional>

#include "sotto/core/config/options.h"
#include "sotto/device/target.h"
#include "sotto/optim/optimizer.h"

namespace sotto::train {

enum class Numerics { kFp32, kTf32, kBf16Exact, kBf16Lean, kFp16 };

inline constexpr std::array kNumerics = {
    Named{"fp32", Numerics::kFp32}, Named{"tf32", Numerics::kTf32},
    Named{"bf16-exact", Numerics::kBf16Exact}, Named{"bf16-lean", Numerics::kBf16Lean},
    Named{"fp16", Numerics::kFp16}};

// Type of products and activations.
enum class Compute { kFp32, kTf32, kBf16, kFp16 };

inline constexpr std::array kComputes = {
    Named{"fp32", Compute::kFp32}, Named{"tf32", Compute::kTf32}, Named{"bf16", Compute::kBf16},
    Named{"fp16", Compute::kFp16}};

inline constexpr std::array kRemainderBits = {Named{"16", 16}, Named{"8", 8}, Named{"0", 0}};

inline constexpr std::array kGradientTypes = {Named{"fp32", at::kFloat},
                                              Named{"bf16", at::kBFloat16}};

// All parts of an arithmetic. They apply to large matrices; other parameters, their gradients and
// their state are fp32.
struct Arithmetic {
  Compute compute = Compute::kFp32;
  // Bits stored in addition to each bf16 weight, where the compute type is bf16: with 16 bits
  // weights are equivalent to fp32, with fewer an update is rounded stochastically.
  int remainder_bits = 16;
  at::ScalarType gradients = at::kFloat;
  optim::Moments moments = optim::Moments::kFp32;
  // Matrices with fewer values are not considered large.
  int64_t small_below = 4096;

  // Type of activations and products.
  at::ScalarType compute_type() const;
  // fp16 weights are converted from fp32 on use.
  at::ScalarType weight_type() const;
  optim::StateForm state_form() const {
    return {.remainder_bits = remainder_bits, .moments = moments};
  }

  friend bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

Arithmetic preset_of(Numerics numerics);

// Parts that override the preset.
struct PrecisionOptions {
  std::optional<Compute> compute;
  std::optional<int> remainder_bits;
  std::optional<at::ScalarType> gradients;
  std::optional<optim::Moments> moments;
  // Matrices with fewer values use fp32 throughout, whatever the other parts are.
  int64_t small_below = 4096;

  void visit(OptionVisitor& visitor);
};

// Throws ConfigError where the parts are incompatible.
Arithmetic arithmetic_of(Numerics numerics, const PrecisionOptions& parts);

// Throws Infeasible where the target does not support the arithmetic.
void check_arithmetic(const Arithmetic& arithmetic, const device::Target& target);

// Gradients in bf16 are rounded at each micro-batch: sums of 4 were measured to be 0.3 % off, sums
// of 256 6 %. Throws ConfigError where a step has too many micro-batches for the type of its
// gradients.
inline constexpr int64_t kMaxBf16Sums = 16;
void check_micro_batches(at::ScalarType gradients, int64_t num_micro_batches);

// Sets in LibTorch whether fp32 products may use TF32, and disables reduced-precision reductions of
// 16-bit products. This applies to the whole process: a run has one arithmetic.
void apply_arithmetic(const Arithmetic& arithmetic);

// Factor applied to fp16 losses before backward, so that small gradients do not underflow; the
// update divides by it. It is halved when gradients overflow, and doubled after kStepsToDouble
// steps without overflow.
class LossScale {
 public:
  static constexpr double kFirst = 65'536.0;
  static constexpr double kLargest = 16'777'216.0;
  // Below 1, gradients overflow for a reason other than the scale; the run warns and continues.
  static constexpr double kSmallest = 1.0 / 16'777'216.0;
  static constexpr int64_t kStepsToDouble = 2'000;

  // The scale is always 1 except for fp16.
  explicit LossScale(const Arithmetic& arithmetic)
      : is_dynamic_(arithmetic.compute == Compute::kFp16), value_(is_dynamic_ ? kFirst : 1.0) {}

  bool is_dynamic() const { return is_dynamic_; }
  double value() const { return value_; }
  int64_t steps_since_change() const { return steps_since_change_; }

  // Called after a step with whether its gradients were finite.
  void update(bool was_finite);

  // Restores the values of a checkpoint.
  void restore(double value, int64_t steps_since_change);

 private:
  bool is_dynamic_;
  double value_;
  int64_t steps_since_change_ = 0;
};

}  // namespace sotto::train
