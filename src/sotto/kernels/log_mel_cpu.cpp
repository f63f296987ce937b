#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "sotto/kernels/cpu_kernel.h"
#include "sotto/kernels/log_mel_frames.h"
#include "sotto/kernels/log_mel_windows.h"
#include "sotto/kernels/row_largest.h"
#include "sotto/kernels/simd.h"

namespace sotto::kernels::detail {

namespace {

// The samples first .. first + window of an utterance.
void copy_window(std::span<const float> utterance, int64_t first, const LogMelFraming& framing,
                 std::span<float> row) {
  const auto length = static_cast<int64_t>(utterance.size());
  const auto window = static_cast<int64_t>(row.size());
  if (framing.by_frame) {
    const float* frame = utterance.data() + first;
    const double sum = std::accumulate(frame, frame + window, 0.0);
    const auto mean = static_cast<float>(sum / static_cast<double>(window));
    for (int64_t i = 0; i < window; ++i)
      row[static_cast<size_t>(i)] = seen_in_frame(frame, i, mean, framing);
    return;
  }
  const bool is_inside = first >= 0 && first + window <= length;
  if (is_inside && framing.pre_emphasis == 0.0f) {
    std::copy_n(utterance.begin() + first, window, row.begin());
    return;
  }
  for (int64_t i = 0; i < window; ++i)
    row[static_cast<size_t>(i)] = seen_at(utterance.data(), length, first + i, framing);
}

// Columns first .. first + count of an utterance's features [length, width], each with mean 0 and
// deviation 1. Sums in double: a filter may be far from 0 and vary little.
void standardise_columns(float* features, int64_t length, int64_t width, int64_t count) {
  std::array<double, simd::kLanes> mean = {};
  std::array<double, simd::kLanes> squares = {};
  const auto for_each = [&](auto body) {
    for (int64_t frame = 0; frame < length; ++frame) {
      for (int64_t i = 0; i < count; ++i) body(features[frame * width + i], static_cast<size_t>(i));
    }
  };
  for_each([&](float x, size_t i) { mean[i] += x; });
  for (double& value : mean) value /= static_cast<double>(length);
  for_each([&](float x, size_t i) {
    const double centred = x - mean[i];
    squares[i] += centred * centred;
  });
  std::array<float, simd::kLanes> factor = {};
  for (size_t i = 0; i < factor.size(); ++i) {
    const double deviation = std::sqrt(squares[i] / static_cast<double>(length - 1));
    factor[i] = static_cast<float>(1.0 / (deviation + kLogMelDeviation));
  }
  for_each([&](float& x, size_t i) { x = static_cast<float>(x - mean[i]) * factor[i]; });
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
      const int64_t place = (frame - frames.starts[u]) * frames.framing.hop;
      copy_window(
          {wave + frames.samples.starts()[u], static_cast<size_t>(frames.samples.lengths()[u])},
          place - frames.framing.before, frames.framing,
          {out + row * window, static_cast<size_t>(window)});
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

void log_mel_logarithm_cpu(const at::Tensor& features, const LogMelLogarithm& logarithm) {
  const int64_t width = features.size(1);
  float* values = features.mutable_data_ptr<float>();
  parallel_rows(features.size(0), width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * width; i < end * width; ++i)
      values[i] = logarithm.scale * std::log(std::max(values[i], logarithm.least));
  });
}

void log_mel_limit_cpu(const at::Tensor& features, const LogMelFrames& frames) {
  const int64_t width = features.size(1);
  float* values = features.mutable_data_ptr<float>();
  parallel_tasks(std::ssize(frames.starts) - 1, features.numel(), [&](int64_t utterance) {
    const auto u = static_cast<size_t>(utterance);
    const int64_t begin = frames.starts[u] * width, end = frames.starts[u + 1] * width;
    const float largest = largest_of(values + begin, end - begin);
    for (int64_t i = begin; i < end; ++i) values[i] = LogMelRange::limited(values[i], largest);
  });
}

void log_mel_standardise_cpu(const at::Tensor& features, const LogMelFrames& frames) {
  const int64_t width = features.size(1);
  const int64_t num_blocks = (width + simd::kLanes - 1) / simd::kLanes;
  float* values = features.mutable_data_ptr<float>();
  parallel_tasks((std::ssize(frames.starts) - 1) * num_blocks, features.numel(), [&](int64_t task) {
    const auto u = static_cast<size_t>(task / num_blocks);
    const int64_t column = task % num_blocks * simd::kLanes;
    standardise_columns(values + frames.starts[u] * width + column,
                        frames.starts[u + 1] - frames.starts[u], width,
                        std::min<int64_t>(simd::kLanes, width - column));
  });
}

}  // namespace sotto::kernels::detail
