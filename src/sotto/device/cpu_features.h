// Instructions of this CPU that kernels choose by.
//
// The environment variable SOTTO_MASK_CPU hides some of them, so that the paths for CPUs without
// them can be tested on one that has them: SOTTO_MASK_CPU=bf16,avx512.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sotto::device {

struct CpuFeatures {
  // Products of bf16 matrices: Arm's bf16 extension, AVX512-BF16 or AMX-BF16.
  bool bf16 = false;
  bool avx512 = false;

  friend bool operator==(const CpuFeatures&, const CpuFeatures&) = default;
};

// From the flags of /proc/cpuinfo, less those of `mask`. Throws ConfigError where the mask names
// something else.
CpuFeatures find_cpu_features(const std::vector<std::string>& flags, std::string_view mask);

// Those of this machine under the environment's mask; read once.
const CpuFeatures& cpu_features();

}  // namespace sotto::device
