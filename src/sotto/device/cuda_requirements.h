// What a build with CUDA needs: LibTorch 2.11's wheel is compiled for CUDA 13.0, which introduced
// these requirements.
#pragma once

namespace sotto::device {

// Major version of the oldest NVIDIA driver.
inline constexpr int kOldestDriver = 580;
// Oldest compute capability, as major * 10 + minor: Turing.
inline constexpr int kOldestCapability = 75;

}  // namespace sotto::device
