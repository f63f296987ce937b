// Differences between the kinds of log-mel features, apart from their tables. Internal to that
// kernel.
#pragma once

#include "sotto/kernels/features/log_mel.h"

namespace sotto::kernels {

struct LogMelRule {
  // Frame t is centred at sample t x hop; otherwise it begins there, and must end in the utterance.
  bool is_centred = true;
  // Padding before the first sample and after the last: the reflection, or zeros.
  bool reflects = true;
  // A centred frame at the very end is omitted.
  bool drops_last = false;
  // The number of points of the Fourier transform is rounded up to a power of two.
  bool rounds_up = false;
  // Pre-emphasis of each frame, with its mean removed; otherwise of the waveform before it is cut
  // into frames.
  bool by_frame = false;
  float pre_emphasis = 0.0f;
  // Added to a filter's power, and the lower bound of the logarithm's argument.
  float added = 0.0f;
  float least = 0.0f;
  // Scale of the natural logarithm.
  float scale = 1.0f;
};

LogMelRule rule_of(LogMelKind kind);

// Returns the number of points of the Fourier transform.
int64_t num_points(const LogMelOptions& options);

// Returns F.
int64_t num_frequencies(const LogMelOptions& options);

}  // namespace sotto::kernels
