// Where the samples under a window are, for all device versions of LogMel. Internal to that kernel.
#pragma once

#include <cstdint>

#include "sotto/kernels/cuda_array.h"

namespace sotto::kernels {

// The sample of an utterance of `length` that stands at `sample`, which may lie before its first or
// behind its last: it goes on by its reflection at both ends, and sample -1 is sample 1. Once is
// enough: no window reaches further than its half outside.
constexpr int64_t reflected(int64_t sample, int64_t length) {
  if (sample < 0) sample = -sample;
  return sample < length ? sample : 2 * (length - 1) - sample;
}

// LogMelFrames on the device.
struct CudaLogMelFrames {
  const float* wave = nullptr;      // [S]
  CudaPack samples;                 // frames of this pack are samples
  const int32_t* starts = nullptr;  // [utterances + 1], running sum of the utterances' frames
  int64_t hop = 0;
};

}  // namespace sotto::kernels
