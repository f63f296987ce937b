// What the kinds of log-mel features differ in, apart from their tables. Internal to that kernel.
#pragma once

#include "sotto/kernels/features/log_mel.h"

namespace sotto::kernels {

struct LogMelRule {
  // Frame t is about sample t x hop; else it begins there, and must end in the utterance.
  bool is_centred = true;
  // What a window finds before the first sample and behind the last: the reflection, or zeros.
  bool reflects = true;
  // A centred frame at the very end is left out.
  bool drops_last = false;
  // The Fourier transform has the points of a power of two.
  bool rounds_up = false;
  // Of the waveform before it is cut into frames; by frame: of each frame, without its mean.
  bool by_frame = false;
  float pre_emphasis = 0.0f;
  // Added to a filter's power, and the least that its logarithm is taken of.
  float added = 0.0f;
  float least = 0.0f;
  // Of the natural logarithm.
  float scale = 1.0f;
};

LogMelRule rule_of(LogMelKind kind);

// The points of the Fourier transform.
int64_t num_points(const LogMelOptions& options);

// F.
int64_t num_frequencies(const LogMelOptions& options);

}  // namespace sotto::kernels
