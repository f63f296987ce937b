#include <algorithm>
#include <cmath>
#include <span>

#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/log_mel_frames.h"
#include "sotto/kernels/log_mel_windows.h"
#include "sotto/kernels/simd.h"

namespace sotto::kernels::detail {

namespace {

// The samples first .. first + window of an utterance.
void copy_reflected(std::span<const float> utterance, int64_t first, std::span<float> row) {
  const auto length = static_cast<int64_t>(utterance.size());
  const auto window = static_cast<int64_t>(row.size());
  if (first >= 0 && first + window <= length) {
    std::copy_n(utterance.begin() + first, window, row.begin());
    return;
  }
  for (int64_t i = 0; i < window; ++i) {
    row[static_cast<size_t>(i)] = utterance[static_cast<size_t>(reflected(first + i, length))];
  }
}

}  // namespace

void log_mel_gather_cpu(const LogMelFrames& frames, int64_t first, const at::Tensor& rows) {
  const int64_t window = rows.size(1);
  const float* wave = frames.wave.const_data_ptr<float>();
  float* out = rows.mutable_data_ptr<float>();
  parallel_rows(rows.size(0), window, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t frame = first + row;
      const auto u = static_cast<size_t>(std::ranges::upper_bound(frames.starts, frame) -
                                         frames.starts.begin() - 1);
      const int64_t centre = (frame - frames.starts[u]) * frames.hop;
      copy_reflected(
          {wave + frames.samples.starts()[u], static_cast<size_t>(frames.samples.lengths()[u])},
          centre - window / 2, {out + row * window, static_cast<size_t>(window)});
    }
  });
}

void log_mel_square_cpu(const at::Tensor& spectrum) {
  const int64_t width = spectrum.size(1);
  float* values = spectrum.mutable_data_ptr<float>();
  parallel_rows(spectrum.size(0), width, [&](int64_t begin, int64_t end) {
    float* from = values + begin * width;
    simd::for_each_block((end - begin) * width, [&](int64_t i, auto n) {
      const simd::Lanes x = simd::load(from + i, n);
      simd::store(from + i, x * x, n);
    });
  });
}

void log_mel_logarithm_cpu(const at::Tensor& features) {
  const int64_t width = features.size(1);
  float* values = features.mutable_data_ptr<float>();
  parallel_rows(features.size(0), width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * width; i < end * width; ++i) values[i] = std::log(values[i]);
  });
}

}  // namespace sotto::kernels::detail
