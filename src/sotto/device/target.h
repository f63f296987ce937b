// What a step runs on, as far as kernels choose by it. The dry run is told by a scope which device
// its tensors stand for; a run that pretends to have another card is told in the same way.
#pragma once

#include <cstdint>

#include "sotto/device/cpu_features.h"

namespace sotto::device {

enum class Processor { kCpu, kCuda };

struct Target {
  Processor processor = Processor::kCpu;
  // Of a GPU: its compute capability as major * 10 + minor, and its multiprocessors.
  int capability = 0;
  int64_t num_sms = 0;
  // Instructions of the CPU. A plan for a CPU is a plan for this machine.
  CpuFeatures cpu = cpu_features();
  // Results must be the same to the bit each time: some kernels of libraries are then slower, or
  // take more memory.
  bool is_deterministic = false;

  bool is_cuda() const { return processor == Processor::kCuda; }
  // bf16 products and FlashAttention came with the same generation of GPUs. A CPU can always
  // compute in bf16, at the speed of fp32 where it has no instructions for it.
  bool has_bf16() const { return !is_cuda() || capability >= 80; }
  bool has_flash_attention() const { return is_cuda() && capability >= 80; }

  friend bool operator==(const Target&, const Target&) = default;
};

// The target in force on this thread: that of the innermost scope, else the CPU.
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
