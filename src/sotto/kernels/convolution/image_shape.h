// Images of packed utterances: frames of F bins (mels) with C channels each, whose values are
// adjacent. Windows of 3 x 3, stride 2 and one zero of padding along time and bins: an utterance of
// T frames has ceil(T / 2) windows along time, and a frame F' = ceil(F / 2) along its bins.
//
// A pack may hold parts of utterances. If it starts inside of one, the first frame of its first
// utterance is the one before the first window's centre, instead of a zero. It may end inside of
// one: windows beyond the last frame that the output's packing has are left out.
#pragma once

#include <cstdint>

namespace sotto::kernels {

struct ImageShape {
  int64_t bins = 1;      // F
  int64_t channels = 1;  // C
  bool starts_inside = false;

  static constexpr int64_t kSize = 3;
  static constexpr int64_t kTaps = kSize * kSize;

  // Number of windows along frames or bins.
  static constexpr int64_t windowed(int64_t length) { return (length + 1) / 2; }

  constexpr int64_t windowed_bins() const { return windowed(bins); }
  constexpr int64_t width() const { return bins * channels; }
  constexpr int64_t windowed_width() const { return windowed_bins() * channels; }

  // Number of zeros before the first frame of an utterance.
  constexpr int64_t zeros_before(int64_t utterance) const {
    return utterance == 0 && starts_inside ? 0 : 1;
  }
};

// The windows along one axis that see an index, through the tap index + zeros - 2 window.
struct SeeingWindows {
  int64_t first;
  int64_t last;  // may be below the first: none

  static constexpr SeeingWindows of(int64_t index, int64_t zeros_before, int64_t num_windows) {
    const int64_t padded = index + zeros_before;
    const int64_t last = padded / 2;
    return {.first = padded > 0 ? (padded - 1) / 2 : 0,
            .last = last < num_windows ? last : num_windows - 1};
  }
};

}  // namespace sotto::kernels
