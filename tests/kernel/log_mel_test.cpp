// What the rows of the kernel table do not reach: windows of other forms, packs of other shapes.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "sotto/kernels/features/log_mel.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace log_mel_test {

using kernels::LogMel;
using kernels::LogMelKind;
using kernels::LogMelOptions;
using kernels::Packing;

at::Tensor noise(int64_t samples) {
  at::manual_seed(5);
  return 0.1 * at::randn({samples}, at::kFloat);
}

// [frames, M] by ATen's transform in double precision and the kernel's own filters, which other
// tests compare.
at::Tensor reference(const at::Tensor& wave, const LogMel::Tables& tables) {
  const LogMelOptions& options = tables.options();
  const bool is_kaldi = options.kind == LogMelKind::kKaldi;
  const int64_t points = 2 * (tables.filters().size(1) - 1);
  at::Tensor powers;
  const at::Tensor window = at::hann_window(options.window, /*periodic=*/!is_kaldi, at::kDouble);
  if (is_kaldi) {
    at::Tensor frames = wave.to(at::kDouble).unfold(0, options.window, options.hop);
    frames = frames - frames.mean(1, /*keepdim=*/true);
    const at::Tensor before = at::cat({frames.slice(1, 0, 1), frames.slice(1, 0, -1)}, 1);
    powers = at::fft_rfft((frames - 0.97 * before) * window.pow(0.85), points).abs().square().t();
  } else {
    powers = at::stft(wave.to(at::kDouble), points, options.hop, options.window, window,
                      /*center=*/true, "reflect", /*normalized=*/false, /*onesided=*/true,
                      /*return_complex=*/true)
                 .abs()
                 .square();
  }
  const at::Tensor mel = at::matmul(tables.filters().to(at::kDouble), powers).t();
  return is_kaldi ? at::log(at::clamp_min(mel, 0x1p-23)) : at::log(mel + 1e-9);
}

// Small, odd (kaldi), and with prime factors that have no butterfly of their own; a number of
// filters that is not a multiple of the vector size.
TEST(LogMelWindows, MayHaveAnySize) {
  const auto check = [](LogMelKind kind, int64_t window) {
    LogMelOptions options = LogMelOptions::of_kind(kind);
    options.window = window;
    options.hop = 11;
    options.num_mels = 7;
    const LogMel::Tables tables(options, at::kCPU);
    const at::Tensor wave = noise(1'200);
    const at::Tensor ours = LogMel::forward(wave, Packing({1'200}, at::kCPU), tables);
    const at::Tensor truth = reference(wave, tables);
    ASSERT_EQ(ours.sizes(), truth.sizes());
    EXPECT_LE((ours - truth).abs().max().item<double>(), kLogMelTolerance) << window;
  };
  for (const int64_t window : {2, 4, 6, 10, 14, 22, 98, 154, 202, 358, 400, 1'024})
    check(LogMelKind::kTorchaudio, window);
  for (const int64_t window : {3, 4, 5, 7, 25, 255, 256, 257, 401})
    check(LogMelKind::kKaldi, window);
}

// A frame has the same bits in every lane and at every position in a pack.
TEST(LogMelPacks, GiveTheSameBitsInAnyPack) {
  for (const auto& [name, kind] : kernels::kLogMelKinds) {
    const LogMel::Tables tables(LogMelOptions::of_kind(kind), at::kCPU);
    const int64_t length = 16'000;
    const at::Tensor wave = noise(length);
    const at::Tensor alone = LogMel::forward(wave, Packing({length}, at::kCPU), tables);
    for (int64_t before = 1; before <= 9; ++before) {
      std::vector<int64_t> lengths(static_cast<size_t>(before), 500);
      lengths.push_back(length);
      lengths.push_back(700);
      const at::Tensor pack = at::cat({noise(500 * before), wave, noise(700)});
      const Packing samples(lengths, at::kCPU);
      const std::vector<at::Tensor> parts =
          LogMel::forward(pack, samples, tables)
              .split_with_sizes(LogMel::frame_lengths(samples, tables.options()));
      EXPECT_TRUE(at::equal(parts[static_cast<size_t>(before)], alone)) << name << " " << before;
    }
  }
}

TEST(LogMelPacks, GiveTheSameBitsOnAnyNumberOfCores) {
  const Packing samples({160'000, 16'000, 3'000}, at::kCPU);
  const at::Tensor wave = noise(samples.num_frames());
  const int before = at::get_num_threads();
  for (const auto& [name, kind] : kernels::kLogMelKinds) {
    const LogMel::Tables tables(LogMelOptions::of_kind(kind), at::kCPU);
    at::set_num_threads(1);
    const at::Tensor alone = LogMel::forward(wave, samples, tables);
    for (const int threads : {2, 3, 8}) {
      at::set_num_threads(threads);
      EXPECT_TRUE(at::equal(LogMel::forward(wave, samples, tables), alone)) << name << threads;
    }
  }
  at::set_num_threads(before);
}

// NaN is not treated as silence.
TEST(LogMelPacks, NanStaysInItsFrames) {
  const LogMel::Tables tables({}, at::kCPU);
  at::Tensor wave = noise(4'000);
  const Packing samples({4'000}, at::kCPU);
  const at::Tensor whole = LogMel::forward(wave, samples, tables);
  wave[1'600] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor broken = LogMel::forward(wave, samples, tables);
  const at::Tensor is_nan = broken.isnan();
  // Frames 9, 10 and 11 have it under their window.
  EXPECT_TRUE(is_nan.slice(0, 9, 12).slice(1, 40).all().item<bool>());
  EXPECT_TRUE(at::equal(broken.slice(0, 0, 9), whole.slice(0, 0, 9)));
  EXPECT_TRUE(at::equal(broken.slice(0, 12), whole.slice(0, 12)));
}

}  // namespace log_mel_test
}  // namespace sotto::test
