// Locations of the samples under a window, for all device versions of LogMel. Internal to that
// kernel.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

// Placement of frames in their utterance.
struct LogMelFraming {
  int64_t hop = 0;
  // Samples of a window before its frame's position, which is a multiple of the hop.
  int64_t before = 0;
  // An utterance is extended by reflection at both ends, otherwise by zeros.
  bool reflects = true;
  // Pre-emphasis of each frame separately, with its mean removed; otherwise of the utterance. Not
  // folded into the Fourier table, although it is linear too: loud low frequencies would reduce the
  // precision of quiet ones.
  bool by_frame = false;
  float pre_emphasis = 0.0f;
};

// Returns the sample of an utterance of `length` at `sample`, which may be before its first or
// after its last: the utterance is extended by reflection at both ends, and sample -1 is sample 1.
// One reflection is enough: no window extends further than its half outside.
constexpr int64_t reflected(int64_t sample, int64_t length) {
  if (sample < 0) sample = -sample;
  return sample < length ? sample : 2 * (length - 1) - sample;
}

// Returns the value that a window sees at `sample` of an utterance, inside or outside of it.
constexpr float seen_at(const float* utterance, int64_t length, int64_t sample,
                        const LogMelFraming& framing) {
  if (framing.reflects) return utterance[reflected(sample, length)];
  if (sample < 0 || sample >= length) return 0.0f;
  const float earlier = sample > 0 ? utterance[sample - 1] : 0.0f;
  return utterance[sample] - framing.pre_emphasis * earlier;
}

// Returns the value that a window sees at `index` of a frame that is processed separately; the
// first sample is its own predecessor.
constexpr float seen_in_frame(const float* frame, int64_t index, float mean,
                              const LogMelFraming& framing) {
  const float earlier = frame[index > 0 ? index - 1 : 0] - mean;
  return (frame[index] - mean) - framing.pre_emphasis * earlier;
}

// Conversion of powers of filters to features: scale x ln(max(power, least)).
struct LogMelLogarithm {
  float least = 0.0f;
  float scale = 1.0f;
};

// Whisper's range: values further below the utterance's maximum are raised to the bound, then (x +
// 4) / 4.
struct LogMelRange {
  static constexpr float kDepth = 8.0f;
  static constexpr float kOffset = 4.0f;

  static constexpr float limited(float x, float largest) {
    const float lowest = largest - kDepth;
    return ((x > lowest ? x : lowest) + kOffset) / kOffset;
  }
};

// NeMo's constant that is added to the deviation by which a filter's features are divided.
inline constexpr float kLogMelDeviation = 1e-5f;

// LogMelFrames on the device.
struct CudaLogMelFrames {
  const float* wave = nullptr;      // [S]
  CudaPack samples;                 // frames of this pack are samples
  const int32_t* starts = nullptr;  // [utterances + 1], cumulative frames of the utterances
  LogMelFraming framing;
};

}  // namespace sotto::kernels
