// Log-mel features of packed waveforms, compatible with four implementations. S samples, N frames,
// W window, F frequencies (half the points of the Fourier transform, plus one), M filters.
//
//   torchaudio  frames centred by reflection at both ends, periodic Hann window, HTK mel scale,
//               ln(mel + 1e-9)
//   whisper     the same frames without the last, Slaney's mel scale, filters of equal area,
//               log10(max(mel, 1e-10)), clamped to at most 8 below the utterance's maximum,
//               (x + 4) / 4
//   nemo        pre-emphasis of the waveform, frames centred with zeros at both ends without the
//               last, Hann window inside a power of two, Slaney's scale and filters of equal area,
//               ln(mel + 2^-24), each filter of an utterance with mean 0 and deviation 1
//   kaldi       whole frames only, each with its mean removed and pre-emphasised, Povey's window
//               inside a power of two, triangles over the HTK mel scale, ln(max(mel, 2^-23))
//
// All of them expect samples in -1 .. 1 and use no dither. The Fourier transform is our own on a
// CPU (real_fourier.h), and on a GPU a product with a table of windowed cosines and sines: a frame
// is short, and a product of many frames at once runs at the speed of Gemm. Only the forward
// direction exists: nothing before the features is trained.
//
// Allocates: the features. As workspace on a CPU two transforms of kSignalsAtOnce frames, fp32 [2,
// points, kSignalsAtOnce], for each core that could work at once: one for every
// kLogMelFramesPerTask frames, at most kMaxWorkers. On a GPU, for kRowsAtOnce frames at a time, the
// samples under the window fp32 [rows, W] and the spectrum fp32 [rows, 2 F], and int32 [utterances
// + 1]. The caller keeps the tables: 4 (F M + 2 M + W) bytes on a CPU and 8 to 12 for each point of
// the transform; on a GPU 4 (2 F W + 2 F M).
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
  // The implementation to reproduce; sets the other options to its defaults.
  LogMelKind kind = LogMelKind::kTorchaudio;
  // Sample rate of the waveform, in Hz.
  int64_t sample_rate = 16'000;
  // Samples under the window; even if frames are centred. The Fourier transform has the same number
  // of points, with nemo and kaldi the next power of two.
  int64_t window = 400;
  // Distance of consecutive frames in samples.
  int64_t hop = 160;
  // Number of filters: the width of a frame.
  int64_t num_mels = 80;
  // Lower end of the lowest filter, in Hz.
  double f_min = 0.0;
  // Upper end of the highest filter, in Hz; 0: half the sample rate.
  double f_max = 0.0;

  // Returns the defaults of a kind.
  static LogMelOptions of_kind(LogMelKind kind);

  void visit(OptionVisitor& visitor);
  void validate() const;  // throws ConfigError

  friend bool operator==(const LogMelOptions&, const LogMelOptions&) = default;
};

struct LogMel {
  // Constants for a set of options on a device, computed once. Throws ConfigError for inconsistent
  // options.
  class Tables {
   public:
    Tables(const LogMelOptions& options, const at::Device& device);

    const LogMelOptions& options() const { return options_; }
    at::Device device() const { return filters_.device(); }
    // fp32 [M, F]. On a GPU [M, 2 F]: two copies side by side, for the squares of both parts of a
    // spectrum.
    const at::Tensor& filters() const { return filters_; }
    // On a GPU fp32 [2 F, W]: cosines of the F frequencies under the window, then sines. On a CPU
    // fp32: the factors of RealFourier.
    const at::Tensor& fourier() const { return fourier_; }

    // On a CPU only. int32: the input order of RealFourier.
    const at::Tensor& order() const { return order_; }
    // fp32 [W]: half of the window.
    const at::Tensor& window() const { return window_; }
    // int32 [M, 2]: the non-zero range of a filter, as its first frequency and the one after its
    // last.
    const at::Tensor& bands() const { return bands_; }

   private:
    LogMelOptions options_;
    at::Tensor filters_;
    at::Tensor fourier_;
    at::Tensor order_;
    at::Tensor window_;
    at::Tensor bands_;
  };

  // Frames that are processed at a time on a GPU: fewer would not fill it.
  static constexpr int64_t kRowsAtOnce = 8192;
  // On a CPU; the workspace does not depend on the number of cores.
  static constexpr int64_t kMaxWorkers = 64;

  // Returns features fp32 [N, M] of wave fp32 [S], each utterance separately. `samples` holds the
  // lengths of the utterances in samples. Throws DataError for one shorter than min_samples.
  static at::Tensor forward(const at::Tensor& wave, const Packing& samples, const Tables& tables);

  // Returns the number of frames of an utterance: 1 + samples / hop with torchaudio, samples / hop
  // with whisper and nemo, and with kaldi as many as fit.
  static int64_t num_frames(int64_t samples, const LogMelOptions& options);

  // Returns the frames of each utterance of a pack of samples, for the packing of the features.
  static std::vector<int64_t> frame_lengths(const Packing& samples, const LogMelOptions& options);

  // Returns the length of the shortest valid utterance: one that can be reflected at its ends and
  // that has a frame; with nemo two frames, because the deviation needs them.
  static int64_t min_samples(const LogMelOptions& options);
};

}  // namespace sotto::kernels
