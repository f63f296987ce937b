// What the device versions of LogMel get from the shared part. Internal to that kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/kernels/base/packing.h"
#include "sotto/kernels/features/log_mel_windows.h"
#include "sotto/kernels/features/real_fourier.h"

namespace sotto::kernels {

// Frames that a core takes before it looks for more: enough that looking costs nothing.
inline constexpr int64_t kLogMelFramesATask = 8 * kSignalsAtOnce;

inline int64_t num_log_mel_tasks(int64_t num_frames) {
  return (num_frames + kLogMelFramesATask - 1) / kLogMelFramesATask;
}

// Where the samples of frames are.
struct LogMelFrames {
  const at::Tensor& wave;  // [S]
  const Packing& samples;
  std::vector<int64_t> starts;  // running sum of the utterances' frames, from 0
  at::Tensor device_starts;     // the same on the device, int32 [utterances + 1]
  LogMelFraming framing;

  int64_t num_frames() const { return starts.back(); }
};

}  // namespace sotto::kernels
