// Arguments of the device versions of LogMel. Internal to that kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/features/log_mel_windows.h"
#include "sotto/kernels/features/real_fourier.h"

namespace sotto::kernels {

// Frames that a core takes at a time: enough to make the scheduling cost negligible.
inline constexpr int64_t kLogMelFramesPerTask = 8 * kSignalsAtOnce;

inline int64_t num_log_mel_tasks(int64_t num_frames) {
  return (num_frames + kLogMelFramesPerTask - 1) / kLogMelFramesPerTask;
}

// Location of the samples of frames.
struct LogMelFrames {
  const at::Tensor& wave;  // [S]
  const Packing& samples;
  std::vector<int64_t> starts;  // cumulative frames of the utterances, from 0
  at::Tensor device_starts;     // the same on the device, int32 [utterances + 1]
  LogMelFraming framing;

  int64_t num_frames() const { return starts.back(); }
};

}  // namespace sotto::kernels
