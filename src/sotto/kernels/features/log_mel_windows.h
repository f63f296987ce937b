// Where the samples under a window are, for all device versions of LogMel. Internal to that kernel.
#pragma once

#include <cstdint>

#include "sotto/kernels/base/cuda_array.h"

namespace sotto::kernels {

// How frames lie in their utterance.
struct LogMelFraming {
  int64_t hop = 0;
  // Samples of a window before the place of its frame, which is a multiple of the hop.
  int64_t before = 0;
  // An utterance goes on by its reflection at both ends, else by zeros.
  bool reflects = true;
  // Pre-emphasis is of each frame by itself, without its mean; else of the utterance. Not a part of
  // the Fourier table, though linear too: loud low frequencies would cost quiet ones their digits.
  bool by_frame = false;
  float pre_emphasis = 0.0f;
};

// The sample of an utterance of `length` that stands at `sample`, which may lie before its first or
// behind its last: it goes on by its reflection at both ends, and sample -1 is sample 1. Once is
// enough: no window reaches further than its half outside.
constexpr int64_t reflected(int64_t sample, int64_t length) {
  if (sample < 0) sample = -sample;
  return sample < length ? sample : 2 * (length - 1) - sample;
}

// What a window sees at `sample` of an utterance, inside or outside of it.
constexpr float seen_at(const float* utterance, int64_t length, int64_t sample,
                        const LogMelFraming& framing) {
  if (framing.reflects) return utterance[reflected(sample, length)];
  if (sample < 0 || sample >= length) return 0.0f;
  const float earlier = sample > 0 ? utterance[sample - 1] : 0.0f;
  return utterance[sample] - framing.pre_emphasis * earlier;
}

// What it sees at `place` of a frame that is worked on by itself; the first sample is its own
// predecessor.
constexpr float seen_in_frame(const float* frame, int64_t place, float mean,
                              const LogMelFraming& framing) {
  const float earlier = frame[place > 0 ? place - 1 : 0] - mean;
  return (frame[place] - mean) - framing.pre_emphasis * earlier;
}

// How powers of filters become features: scale x ln(max(power, least)).
struct LogMelLogarithm {
  float least = 0.0f;
  float scale = 1.0f;
};

// Whisper's: what lies further below the utterance's largest is raised to that, then (x + 4) / 4.
struct LogMelRange {
  static constexpr float kDepth = 8.0f;
  static constexpr float kOffset = 4.0f;

  static constexpr float limited(float x, float largest) {
    const float lowest = largest - kDepth;
    return ((x > lowest ? x : lowest) + kOffset) / kOffset;
  }
};

// NeMo's: added to the deviation that a filter's features are divided by.
inline constexpr float kLogMelDeviation = 1e-5f;

// LogMelFrames on the device.
struct CudaLogMelFrames {
  const float* wave = nullptr;      // [S]
  CudaPack samples;                 // frames of this pack are samples
  const int32_t* starts = nullptr;  // [utterances + 1], running sum of the utterances' frames
  LogMelFraming framing;
};

}  // namespace sotto::kernels
