// Log-mel features of each kind, beside the same features by ATen's Fourier transform, utterance by
// utterance. With OMP_NUM_THREADS=1 the figures are those of a core.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "bench_data.h"
#include "sotto/kernels/features/log_mel.h"
#include "topics.h"

namespace sotto::bench {

namespace {

using kernels::LogMel;
using kernels::LogMelKind;
using kernels::LogMelOptions;
using kernels::Packing;

constexpr int64_t kRate = 16'000;
// Of speech corpora; 60 s in all.
std::vector<int64_t> lengths() {
  return {2 * kRate, 4 * kRate, 6 * kRate, 8 * kRate, 11 * kRate, 13 * kRate, 16 * kRate};
}

struct LogMelData {
  explicit LogMelData(LogMelKind kind)
      : samples(lengths(), at::kCPU),
        wave(0.1 * random_values({samples.num_frames()}, at::kFloat)),
        tables(LogMelOptions::of_kind(kind), at::kCPU),
        points(2 * (tables.filters().size(1) - 1)),
        window(at::hann_window(tables.options().window)) {}

  Packing samples;
  at::Tensor wave;  // [S]
  LogMel::Tables tables;
  // The points of the Fourier transform.
  int64_t points;
  at::Tensor window;  // [W]
};

// [F, frames]; a window of another form costs the same.
at::Tensor powers_of(const at::Tensor& utterance, const LogMelData& data) {
  const LogMelOptions& options = data.tables.options();
  if (options.kind == LogMelKind::kKaldi) {
    const at::Tensor whole = utterance.unfold(0, options.window, options.hop);
    const at::Tensor frames = whole - whole.mean(1, /*keepdim=*/true);
    const at::Tensor before = at::cat({frames.slice(1, 0, 1), frames.slice(1, 0, -1)}, 1);
    return at::fft_rfft((frames - 0.97 * before) * data.window, data.points).abs().square().t();
  }
  const bool is_nemo = options.kind == LogMelKind::kNemo;
  const at::Tensor wave = is_nemo
                              ? at::cat({utterance.slice(0, 0, 1),
                                         utterance.slice(0, 1) - 0.97 * utterance.slice(0, 0, -1)})
                              : utterance;
  return at::stft(wave, data.points, options.hop, options.window, data.window, /*center=*/true,
                  is_nemo ? "constant" : "reflect", /*normalized=*/false, /*onesided=*/true,
                  /*return_complex=*/true)
      .abs()
      .square();
}

at::Tensor features_of(const at::Tensor& utterance, const LogMelData& data) {
  const at::Tensor mel = at::matmul(data.tables.filters(), powers_of(utterance, data)).t();
  switch (data.tables.options().kind) {
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

Sides log_mel(LogMelKind kind) {
  const auto data = std::make_shared<LogMelData>(kind);
  return {.ours = [data] { keep(LogMel::forward(data->wave, data->samples, data->tables)); },
          .theirs =
              [data] {
                for (const at::Tensor& utterance : data->wave.split_with_sizes(lengths()))
                  keep(features_of(utterance, *data));
              }};
}

}  // namespace

std::vector<Pair> log_mel_pairs() {
  std::vector<Pair> pairs;
  for (const auto& [name, kind] : kernels::kLogMelKinds) {
    pairs.push_back({.topic = "log_mel",
                     .shape = fmt::format("{}_60s", name),
                     .audio_s = 60.0,
                     .make = [kind = kind] { return in_one_arena(log_mel(kind)); }});
  }
  return pairs;
}

}  // namespace sotto::bench
