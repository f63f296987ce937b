// Which arithmetic a run uses, by name. The budget never changes it.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>

#include "sotto/core/options.h"
#include "sotto/device/target.h"

namespace sotto::train {

enum class Numerics { kFp32, kTf32, kBf16Exact, kFp16 };

inline constexpr std::array kNumerics = {
    Named{"fp32", Numerics::kFp32}, Named{"tf32", Numerics::kTf32},
    Named{"bf16-exact", Numerics::kBf16Exact}, Named{"fp16", Numerics::kFp16}};

// Of activations and products.
c10::ScalarType compute_type(Numerics numerics);

// Of large matrices; the others are fp32. bf16 weights have a remainder beside them, with which
// they are fp32; fp16 is made of fp32 weights when they are used.
c10::ScalarType weight_type(Numerics numerics);

// Throws ConfigError where the target does not have the arithmetic.
void check_numerics(Numerics numerics, const device::Target& target);

// Tells LibTorch whether products of fp32 may use TF32, and that sums of 16-bit products are not to
// be rounded on the way. Of the process: a run has one arithmetic.
void apply_numerics(Numerics numerics);

// What losses of fp16 are multiplied by before backward, so that small gradients do not vanish; the
// update divides by it. Halved when gradients overflow, doubled when they did not for long.
class LossScale {
 public:
  static constexpr double kFirst = 65'536.0;
  static constexpr double kLargest = 16'777'216.0;
  static constexpr int64_t kStepsToDouble = 2'000;

  // Always 1 but for fp16.
  explicit LossScale(Numerics numerics)
      : is_dynamic_(numerics == Numerics::kFp16), value_(is_dynamic_ ? kFirst : 1.0) {}

  bool is_dynamic() const { return is_dynamic_; }
  double value() const { return value_; }
  int64_t steps_since_change() const { return steps_since_change_; }

  // After a step: whether its gradients were finite.
  void update(bool was_finite);

  // As a checkpoint has it.
  void restore(double value, int64_t steps_since_change);

 private:
  bool is_dynamic_;
  double value_;
  int64_t steps_since_change_ = 0;
};

}  // namespace sotto::train
