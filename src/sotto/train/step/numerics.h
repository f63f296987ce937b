// Which arithmetic a run uses: a preset by name, and parts of it that are set by themselves. The
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

// Of products and activations.
enum class Compute { kFp32, kTf32, kBf16, kFp16 };

inline constexpr std::array kComputes = {
    Named{"fp32", Compute::kFp32}, Named{"tf32", Compute::kTf32}, Named{"bf16", Compute::kBf16},
    Named{"fp16", Compute::kFp16}};

inline constexpr std::array kRemainderBits = {Named{"16", 16}, Named{"8", 8}, Named{"0", 0}};

inline constexpr std::array kGradientTypes = {Named{"fp32", at::kFloat},
                                              Named{"bf16", at::kBFloat16}};

// All parts of an arithmetic. They hold for large matrices; other parameters, their gradients and
// their state are fp32.
struct Arithmetic {
  Compute compute = Compute::kFp32;
  // Kept beside bf16 weights, which there are where bf16 is computed in: with 16 bits both are
  // fp32, with fewer a step is rounded at random.
  int remainder_bits = 16;
  at::ScalarType gradients = at::kFloat;
  optim::Moments moments = optim::Moments::kFp32;
  // Matrices with fewer values are not large.
  int64_t small_below = 4096;

  // Of activations and products.
  at::ScalarType compute_type() const;
  // fp16 is made of fp32 weights when they are used.
  at::ScalarType weight_type() const;
  optim::StateForm state_form() const {
    return {.remainder_bits = remainder_bits, .moments = moments};
  }

  friend bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

Arithmetic preset_of(Numerics numerics);

// Parts that are not as the preset has them.
struct PrecisionOptions {
  std::optional<Compute> compute;
  std::optional<int> remainder_bits;
  std::optional<at::ScalarType> gradients;
  std::optional<optim::Moments> moments;
  // Matrices with fewer values are fp32 throughout, whatever the others are.
  int64_t small_below = 4096;

  void visit(OptionVisitor& visitor);
};

// Throws ConfigError where parts do not go together.
Arithmetic arithmetic_of(Numerics numerics, const PrecisionOptions& parts);

// Throws Infeasible where the target does not have the arithmetic.
void check_arithmetic(const Arithmetic& arithmetic, const device::Target& target);

// Gradients in bf16 are rounded at each micro-batch: sums of four were measured to be 0.3 % off, of
// 256 6 %. Throws ConfigError where a step has too many for the type of its gradients.
inline constexpr int64_t kMaxBf16Sums = 16;
void check_micro_batches(at::ScalarType gradients, int64_t num_micro_batches);

// Tells LibTorch whether products of fp32 may use TF32, and that sums of 16-bit products are not to
// be rounded on the way. Of the process: a run has one arithmetic.
void apply_arithmetic(const Arithmetic& arithmetic);

// What losses of fp16 are multiplied by before backward, so that small gradients do not vanish; the
// update divides by it. Halved when gradients overflow, doubled when they did not for long.
class LossScale {
 public:
  static constexpr double kFirst = 65'536.0;
  static constexpr double kLargest = 16'777'216.0;
  // Below 1 gradients overflow for another reason than the scale; the run says so and goes on.
  static constexpr double kSmallest = 1.0 / 16'777'216.0;
  static constexpr int64_t kStepsToDouble = 2'000;

  // Always 1 but for fp16.
  explicit LossScale(const Arithmetic& arithmetic)
      : is_dynamic_(arithmetic.compute == Compute::kFp16), value_(is_dynamic_ ? kFirst : 1.0) {}

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
