// Properties of the hardware by which kernels are selected. A scope declares which device the
// tensors of a dry run stand for; a run that simulates another card uses the same mechanism.
#pragma once

#include <cstdint>

#include "sotto/device/cpu_features.h"

namespace sotto::device {

enum class Processor { kCpu, kCuda };

struct Target {
  Processor processor = Processor::kCpu;
  // For a GPU: its compute capability as major * 10 + minor, and its multiprocessors.
  int capability = 0;
  int64_t num_sms = 0;
  // Instruction set of the CPU. A plan for a CPU is always a plan for this machine.
  CpuFeatures cpu = cpu_features();
  // Results must be bitwise reproducible: some library kernels are then slower, or take more
  // memory.
  bool is_deterministic = false;

  bool is_cuda() const { return processor == Processor::kCuda; }
  // bf16 products and FlashAttention were introduced with the same GPU generation. A CPU can always
  // compute in bf16, at the speed of fp32 if it has no instructions for it.
  bool has_bf16() const { return !is_cuda() || capability >= 80; }
  bool has_flash_attention() const { return is_cuda() && capability >= 80; }

  friend bool operator==(const Target&, const Target&) = default;
};

// Returns the active target of this thread: that of the innermost scope, or the CPU if there is
// none.
const Target& current_target();

class TargetScope {
 public:
  explicit TargetScope(const Target& target);
  ~TargetScope();
  TargetScope(const TargetScope&) = delete;
  TargetScope& operator=(const TargetScope&) = delete;

 private:
  Target outer_;
};

}  // namespace sotto::device
