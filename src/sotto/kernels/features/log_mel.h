// Log-mel features of packed waveforms, as four implementations have them. S samples, N frames, W
// window, F frequencies (half the points of the Fourier transform, and one), M filters.
//
//   torchaudio  frames centred by reflection at both ends, periodic Hann window, HTK mel scale,
//               ln(mel + 1e-9)
//   whisper     the same frames but the last, Slaney's mel scale, filters of equal area,
//               log10(max(mel, 1e-10)), nothing further than 8 below the utterance's largest,
//               (x + 4) / 4
//   nemo        pre-emphasis of the waveform, frames centred with zeros at both ends but the last,
//               Hann window inside a power of two, Slaney's scale and filters of equal area,
//               ln(mel + 2^-24), each filter of an utterance with mean 0 and deviation 1
//   kaldi       whole frames only, each without its mean and pre-emphasised, Povey's window inside
//               a power of two, triangles over the HTK mel scale, ln(max(mel, 2^-23))
//
// All of them on samples in -1 .. 1 and without dither. On a CPU the Fourier transform is one of
// ours (real_fourier.h), on a GPU a product with a table of windowed cosines and sines: a frame is
// short, and a product of many frames at once runs at the speed of Gemm. Only the forward direction
// exists: nothing before the features is trained.
//
// Allocates: the features. As workspace on a CPU two transforms of kSignalsAtOnce frames, fp32
// [2, points, kSignalsAtOnce], for each core that could work at once: one for every
// kLogMelFramesATask frames, at most kMaxWorkers. On a GPU, for kRowsAtOnce frames at a time, the
// samples under the window fp32 [rows, W] and the spectrum fp32 [rows, 2 F], and int32
// [utterances + 1]. The caller keeps the tables: 4 (F M + 2 M + W) bytes on a CPU and 8 to 12 for
// each point of the transform; on a GPU 4 (2 F W + 2 F M).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

enum class LogMelKind { kTorchaudio, kWhisper, kNemo, kKaldi };

inline constexpr std::array kLogMelKinds = {
    Named{"torchaudio", LogMelKind::kTorchaudio}, Named{"whisper", LogMelKind::kWhisper},
    Named{"nemo", LogMelKind::kNemo}, Named{"kaldi", LogMelKind::kKaldi}};

struct LogMelOptions {
  // Whose features they are; sets the others to what is usual there.
  LogMelKind kind = LogMelKind::kTorchaudio;
  // Of the waveform, in Hz.
  int64_t sample_rate = 16'000;
  // Samples under the window; even where frames are centred. The Fourier transform has as many
  // points, with nemo and kaldi the next power of two.
  int64_t window = 400;
  // Samples from one frame to the next.
  int64_t hop = 160;
  // Filters: the width of a frame.
  int64_t num_mels = 80;
  // Where the lowest filter begins, in Hz.
  double f_min = 0.0;
  // Where the highest filter ends, in Hz; 0: half the sample rate.
  double f_max = 0.0;

  // What is usual for a kind.
  static LogMelOptions of_kind(LogMelKind kind);

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError

  friend bool operator==(const LogMelOptions&, const LogMelOptions&) = default;
};

struct LogMel {
  // The constants of a set of options on a device, made once. Throws ConfigError for options that
  // do not agree with each other.
  class Tables {
   public:
    Tables(const LogMelOptions& options, const at::Device& device);

    const LogMelOptions& options() const { return options_; }
    at::Device device() const { return filters_.device(); }
    // fp32 [M, F]. On a GPU [M, 2 F]: twice side by side, for the squares of both parts of a
    // spectrum.
    const at::Tensor& filters() const { return filters_; }
    // On a GPU fp32 [2 F, W]: cosines of the F frequencies under the window, then sines. On a CPU
    // fp32: the factors of RealFourier.
    const at::Tensor& fourier() const { return fourier_; }

    // On a CPU only. int32: where RealFourier wants values.
    const at::Tensor& order() const { return order_; }
    // fp32 [W]: half of the window.
    const at::Tensor& window() const { return window_; }
    // int32 [M, 2]: where a filter is not 0, as its first frequency and the one behind its last.
    const at::Tensor& bands() const { return bands_; }

   private:
    LogMelOptions options_;
    at::Tensor filters_;
    at::Tensor fourier_;
    at::Tensor order_;
    at::Tensor window_;
    at::Tensor bands_;
  };

  // Frames that are worked on at a time on a GPU: fewer would not fill it.
  static constexpr int64_t kRowsAtOnce = 8192;
  // On a CPU; the workspace does not depend on how many cores there are.
  static constexpr int64_t kMaxWorkers = 64;

  // Features fp32 [N, M] of wave fp32 [S], each utterance by itself. `samples` holds the lengths of
  // the utterances in samples. Throws DataError for one shorter than min_samples.
  static at::Tensor forward(const at::Tensor& wave, const Packing& samples, const Tables& tables);

  // Frames of an utterance: 1 + samples / hop with torchaudio, samples / hop with whisper and nemo,
  // and with kaldi as many as fit.
  static int64_t num_frames(int64_t samples, const LogMelOptions& options);

  // The frames of each utterance of a pack of samples, for the packing of the features.
  static std::vector<int64_t> frame_lengths(const Packing& samples, const LogMelOptions& options);

  // The shortest utterance: one that can be reflected at its ends, that has a frame, and with nemo
  // two, or there is no deviation.
  static int64_t min_samples(const LogMelOptions& options);
};

}  // namespace sotto::kernels
