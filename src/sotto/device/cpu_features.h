// Instruction set extensions of this CPU by which kernels are selected.
//
// The environment variable SOTTO_MASK_CPU hides some of them, so that the code paths for CPUs
// without them can be tested on a CPU that has them: SOTTO_MASK_CPU=bf16,avx512.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sotto::device {

struct CpuFeatures {
  // bf16 matrix products: Arm's bf16 extension, AVX512-BF16 or AMX-BF16.
  bool bf16 = false;
  bool avx512 = false;

  friend bool operator==(const CpuFeatures&, const CpuFeatures&) = default;
};

// Returns the features listed in the flags of /proc/cpuinfo, without those of `mask`. Throws
// ConfigError where the mask contains an unknown name.
CpuFeatures find_cpu_features(const std::vector<std::string>& flags, std::string_view mask);

// Returns the features of this machine without those masked by the environment; read once.
const CpuFeatures& cpu_features();

}  // namespace sotto::device
