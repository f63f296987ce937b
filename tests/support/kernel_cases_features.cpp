// Rows of the kernel table: log-mel features of each kind.
#include <cmath>

#include "sotto/kernels/features/log_mel.h"
#include "support/kernel_case_tools.h"

namespace sotto::test {

namespace {

using namespace sotto::kernels;  // NOLINT: the table names kernels on every line

// A waveform in fp32 whatever the type, of utterances with samples for the frames. 50 samples in
// 64 points where a kind rounds them up.
template <LogMelKind kKind>
LogMelOptions options_of() {
  LogMelOptions options = LogMelOptions::of_kind(kKind);
  options.sample_rate = 8'000;
  options.window = kKind == LogMelKind::kNemo || kKind == LogMelKind::kKaldi ? 50 : 64;
  options.hop = 20;
  options.num_mels = 9;
  options.f_min = 60.0;
  options.f_max = 3'700.0;
  return options;
}

// The shortest utterances reach over both ends under one window.
template <LogMelKind kKind>
std::vector<int64_t> sample_lengths_for(const std::vector<int64_t>& frame_lengths) {
  std::vector<int64_t> lengths;
  for (const int64_t frames : frame_lengths)
    lengths.push_back(LogMel::min_samples(options_of<kKind>()) + (frames - 1) * 21);
  return lengths;
}
template <LogMelKind kKind>
std::vector<Input> log_mel_inputs(const Shape& s) {
  int64_t num_samples = 0;
  for (const int64_t length : sample_lengths_for<kKind>(lengths_for(s.rows))) num_samples += length;
  Input wave = parameter({num_samples}, 1);
  // In parts so quiet that the floors and the range of Whisper's count. Not for nemo, which would
  // divide by the deviation of an utterance in such a part, which is that of rounding.
  constexpr double kQuiet = kKind == LogMelKind::kNemo ? 1e-2 : 1e-6;
  const at::Tensor is_quiet = at::arange(num_samples).div(200, "floor").remainder(3) == 1;
  wave.values = at::where(is_quiet, kQuiet * wave.values, wave.values);
  return {wave};
}
template <LogMelKind kKind>
Tensors run_log_mel(const Tensors& in, const Packing& packing) {
  const LogMel::Tables tables(options_of<kKind>(), in[0].device());
  const Packing samples(sample_lengths_for<kKind>(packing.lengths()), in[0].device());
  return {LogMel::forward(in[0], samples, tables)};
}

// --- the definitions, with the spectrum by ATen's own transform

double htk_mel(double hertz) {
  return 2595.0 * std::log10(1.0 + hertz / 700.0);
}
double slaney_mel(double hertz) {
  return hertz < 1000.0 ? 3.0 * hertz / 200.0
                        : 15.0 + 27.0 * std::log(hertz / 1000.0) / std::log(6.4);
}
at::Tensor htk_hertz(const at::Tensor& mels) {
  return 700.0 * (at::pow(10.0, mels / 2595.0) - 1.0);
}
at::Tensor slaney_hertz(const at::Tensor& mels) {
  return at::where(mels < 15.0, mels * 200.0 / 3.0, 1000.0 * at::pow(6.4, (mels - 15.0) / 27.0));
}

// Triangles [M, F] between points [M + 2] over places [F].
at::Tensor triangles(const at::Tensor& points, const at::Tensor& indices) {
  const at::Tensor widths = points.diff();
  const at::Tensor slopes = points.unsqueeze(1) - indices.unsqueeze(0);  // [M + 2, F]
  const at::Tensor rising = -slopes.slice(0, 0, -2) / widths.slice(0, 0, -1).unsqueeze(1);
  const at::Tensor falling = slopes.slice(0, 2) / widths.slice(0, 1).unsqueeze(1);
  return at::clamp_min(at::minimum(rising, falling), 0.0);
}

at::Tensor filters_of(const LogMelOptions& options, int64_t points) {
  const auto spaced = [&](double (*mel_of)(double)) {
    return at::linspace(mel_of(options.f_min), mel_of(options.f_max), options.num_mels + 2,
                        at::kDouble);
  };
  const at::Tensor hertz = at::linspace(0.0, static_cast<double>(options.sample_rate) / 2.0,
                                        points / 2 + 1, at::kDouble);
  switch (options.kind) {
    case LogMelKind::kTorchaudio: return triangles(htk_hertz(spaced(htk_mel)), hertz);
    case LogMelKind::kKaldi:
      return triangles(spaced(htk_mel), 2595.0 * at::log10(1.0 + hertz / 700.0));
    case LogMelKind::kWhisper:
    case LogMelKind::kNemo: break;
  }
  const at::Tensor ends = slaney_hertz(spaced(slaney_mel));
  return triangles(ends, hertz) * (2.0 / (ends.slice(0, 2) - ends.slice(0, 0, -2))).unsqueeze(1);
}

// Powers [F, frames] of centred frames.
at::Tensor centred_powers(const at::Tensor& wave, const LogMelOptions& options, int64_t points) {
  const bool is_nemo = options.kind == LogMelKind::kNemo;
  const at::Tensor window = at::hann_window(options.window, /*periodic=*/!is_nemo, at::kDouble);
  at::Tensor emphasised = wave;
  if (is_nemo) {
    emphasised = wave.clone();
    emphasised.slice(0, 1) -= 0.97 * wave.slice(0, 0, -1);
  }
  return at::stft(emphasised, points, options.hop, options.window, window, /*center=*/true,
                  is_nemo ? "constant" : "reflect", /*normalized=*/false, /*onesided=*/true,
                  /*return_complex=*/true)
      .abs()
      .square();
}

at::Tensor kaldi_powers(const at::Tensor& wave, const LogMelOptions& options, int64_t points) {
  at::Tensor frames = wave.unfold(0, options.window, options.hop);
  frames = frames - frames.mean(1, /*keepdim=*/true);
  const at::Tensor before = at::cat({frames.slice(1, 0, 1), frames.slice(1, 0, -1)}, 1);
  const at::Tensor povey =
      at::hann_window(options.window, /*periodic=*/false, at::kDouble).pow(0.85);
  return at::fft_rfft((frames - 0.97 * before) * povey, points).abs().square().t();
}

// [frames, M] of one utterance.
at::Tensor log_mel_of(const at::Tensor& wave, const LogMelOptions& options) {
  const bool is_kaldi = options.kind == LogMelKind::kKaldi;
  const int64_t points = is_kaldi || options.kind == LogMelKind::kNemo ? 64 : options.window;
  const at::Tensor powers =
      is_kaldi ? kaldi_powers(wave, options, points) : centred_powers(wave, options, points);
  const at::Tensor mel = at::matmul(filters_of(options, points), powers).t();
  switch (options.kind) {
    case LogMelKind::kTorchaudio: return at::log(mel + 1e-9);
    case LogMelKind::kKaldi: return at::log(at::clamp_min(mel, 0x1p-23));
    case LogMelKind::kWhisper: {
      const at::Tensor log = at::log10(at::clamp_min(mel.slice(0, 0, -1), 1e-10));
      return (at::maximum(log, log.max() - 8.0) + 4.0) / 4.0;
    }
    case LogMelKind::kNemo: break;
  }
  const at::Tensor log = at::log(mel.slice(0, 0, -1) + 0x1p-24);
  return (log - log.mean(0)) / (log.std(0, /*unbiased=*/true) + 1e-5);
}

template <LogMelKind kKind>
Tensors reference_log_mel(const Tensors& in, const Packing& packing) {
  Tensors parts;
  for (const at::Tensor& wave :
       in[0].split_with_sizes(sample_lengths_for<kKind>(packing.lengths())))
    parts.push_back(log_mel_of(wave, options_of<kKind>()));
  return {at::cat(parts)};
}

template <LogMelKind kKind>
KernelCase log_mel_case(const char* name) {
  return {name, true, log_mel_inputs<kKind>, run_log_mel<kKind>, reference_log_mel<kKind>};
}

}  // namespace

std::vector<KernelCase> feature_kernel_cases() {
  constexpr auto kTorchaudio = LogMelKind::kTorchaudio;
  return {
      {"LogMel", true, log_mel_inputs<kTorchaudio>, run_log_mel<kTorchaudio>,
       reference_log_mel<kTorchaudio>},
      log_mel_case<LogMelKind::kWhisper>("LogMelWhisper"),
      log_mel_case<LogMelKind::kNemo>("LogMelNemo"),
      log_mel_case<LogMelKind::kKaldi>("LogMelKaldi"),
  };
}

}  // namespace sotto::test
