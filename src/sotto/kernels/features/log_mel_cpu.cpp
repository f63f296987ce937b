// A core processes kSignalsAtOnce frames from the samples to their features before it continues
// with the next: intermediate values stay in its L1 cache.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <type_traits>

#include "sotto/kernels/features/log_mel_frames.h"
#include "sotto/kernels/features/log_mel_rules.h"
#include "sotto/kernels/features/real_fourier.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/lane_transpose.h"
#include "sotto/kernels/simd/row_largest.h"
#include "sotto/kernels/simd/simd_math.h"

namespace sotto::kernels::detail {

namespace {

using Register = simd::Lanes::Register;

// --- samples under a window

// Subtracts from each sample the scaled predecessor, both without `mean`: row[1 ..] from samples[0
// ..].
void emphasise(const float* samples, float mean, float pre_emphasis, std::span<float> row) {
  simd::for_each_block(std::ssize(row) - 1, [&](int64_t i, auto n) {
    const simd::Lanes earlier = simd::load(samples + i, n) - mean;
    const simd::Lanes now = simd::load(samples + i + 1, n) - mean;
    simd::store(row.data() + i + 1, now - pre_emphasis * earlier, n);
  });
}

float mean_of(const float* frame, int64_t window) {
  std::array<double, simd::kLanes> sums = {};
  simd::for_each_block(
      window, [&](int64_t i, auto n) { simd::add_to(sums.data(), simd::load(frame + i, n)); });
  const double sum = std::accumulate(sums.begin(), sums.end(), 0.0);
  return static_cast<float>(sum / static_cast<double>(window));
}

// Copies the samples first .. first + window of an utterance as the window sees them.
void copy_window(std::span<const float> utterance, int64_t first, const LogMelFraming& framing,
                 std::span<float> row) {
  const auto length = static_cast<int64_t>(utterance.size());
  const auto window = static_cast<int64_t>(row.size());
  if (framing.by_frame) {
    const float* frame = utterance.data() + first;
    const float mean = mean_of(frame, window);
    row[0] = seen_in_frame(frame, 0, mean, framing);
    emphasise(frame, mean, framing.pre_emphasis, row);
    return;
  }
  if (first >= 0 && first + window <= length) {
    row[0] = seen_at(utterance.data(), length, first, framing);
    emphasise(utterance.data() + first, 0.0f, framing.pre_emphasis, row);
    return;
  }
  for (int64_t i = 0; i < window; ++i)
    row[static_cast<size_t>(i)] = seen_at(utterance.data(), length, first + i, framing);
}

// --- kSignalsAtOnce frames

// The memory of one worker.
struct Room {
  float* values;  // [points, kSignalsAtOnce], for the transform
  float* other;   // the same size: rows of samples, then workspace of the transform, then the
                  // powers
};

class FrameBlock {
 public:
  FrameBlock(const LogMelFrames& frames, const LogMel::Tables& tables, const RealFourier& transform)
      : frames_(frames),
        tables_(tables),
        transform_(transform),
        wave_(frames.wave.const_data_ptr<float>()),
        window_(tables.window().const_data_ptr<float>()),
        order_(tables.order().const_data_ptr<int32_t>()),
        factors_(tables.fourier().const_data_ptr<float>()),
        filters_(tables.filters().const_data_ptr<float>()),
        bands_(tables.bands().const_data_ptr<int32_t>()),
        rule_(rule_of(tables.options().kind)) {}

  // Computes the features of frames first .. first + count, and writes them to `out` [count, M].
  void run(int64_t first, int64_t count, const Room& room, float* out) const {
    const float* rows[kSignalsAtOnce];
    find_rows(first, count, room, rows);
    fill_values(rows, room.values);
    transform_.transform(room.values, room.other, factors_);
    transform_.take_powers(room.values, room.other, factors_);
    filter(room.other, count, out);
    take_logarithms(out, count * tables_.options().num_mels);
  }

 private:
  // Finds the samples under each frame's window: in the waveform, or in the room if padding or
  // pre-emphasis changes them. Lanes without a frame repeat the work of the first.
  void find_rows(int64_t first, int64_t count, const Room& room,
                 const float* (&rows)[kSignalsAtOnce]) const {
    const LogMelFraming& framing = frames_.framing;
    const int64_t window = tables_.options().window;
    auto u = static_cast<size_t>(std::ranges::upper_bound(frames_.starts, first) -
                                 frames_.starts.begin() - 1);
    for (int64_t lane = 0; lane < count; ++lane) {
      while (first + lane >= frames_.starts[u + 1]) ++u;
      const int64_t index = (first + lane - frames_.starts[u]) * framing.hop - framing.before;
      const int64_t length = frames_.samples.lengths()[u];
      const float* utterance = wave_ + frames_.samples.starts()[u];
      if (framing.pre_emphasis == 0.0f && index >= 0 && index + window <= length) {
        rows[lane] = utterance + index;
        continue;
      }
      float* row = room.other + lane * window;
      copy_window({utterance, static_cast<size_t>(length)}, index, framing,
                  {row, static_cast<size_t>(window)});
      rows[lane] = row;
    }
    std::fill(rows + count, rows + kSignalsAtOnce, rows[0]);
  }

  // Applies the window and stores one frame per lane, in the transform's order.
  void fill_values(const float* const (&rows)[kSignalsAtOnce], float* values) const {
    const int64_t window = tables_.options().window;
    const int32_t* const order = order_;
    const float* const factors = window_;
    int64_t sample = 0;
    for (; sample + simd::kQuad <= window; sample += simd::kQuad) {
      Register x[simd::kQuad];
      simd::load_columns(x, rows, sample);
#pragma GCC unroll 4
      for (int64_t i = 0; i < simd::kQuad; ++i) {
        const Register seen = x[i] * factors[sample + i];
        const int64_t index = int64_t{2} * order[sample / 2 + i / 2] + i % 2;
        std::memcpy(values + index * kSignalsAtOnce, &seen, sizeof(seen));
      }
    }
    // The last sample of an odd window, and zero padding.
    for (; sample < transform_.num_points(); ++sample) {
      const int64_t index = int64_t{2} * order[sample / 2] + sample % 2;
      for (int64_t lane = 0; lane < kSignalsAtOnce; ++lane)
        values[index * kSignalsAtOnce + lane] =
            sample < window ? rows[lane][sample] * factors[sample] : 0.0f;
    }
  }

  // Returns the sum of a filter's powers, frequency by frequency.
  [[gnu::always_inline]] Register power_of(int64_t mel, const float* powers) const {
    const int32_t* band = bands_ + 2 * mel;
    const float* filter = filters_ + mel * transform_.num_frequencies();
    Register sum = rule_.added - Register{};
    for (int64_t frequency = band[0]; frequency < band[1]; ++frequency) {
      Register power;
      std::memcpy(&power, powers + frequency * kSignalsAtOnce, sizeof(power));
      sum += filter[frequency] * power;
    }
    return sum;
  }

  void filter(const float* powers, int64_t count, float* out) const {
    const int64_t num_mels = tables_.options().num_mels;
    int64_t mel = 0;
    for (; mel + simd::kQuad <= num_mels; mel += simd::kQuad) {
      Register x[simd::kQuad];
#pragma GCC unroll 4
      for (int64_t i = 0; i < simd::kQuad; ++i) x[i] = power_of(mel + i, powers);
      simd::store_columns(out + mel, num_mels, count, x);
    }
    for (; mel < num_mels; ++mel) {
      const Register x = power_of(mel, powers);
      for (int lane = 0; lane < count; ++lane) out[lane * num_mels + mel] = x[lane];
    }
  }

  void take_logarithms(float* values, int64_t size) const {
    simd::for_each_block(size, [&](int64_t i, auto n) {
      const simd::Lanes x = simd::load(values + i, n);
      const simd::Lanes bounded = simd::select<float>(x < rule_.least, rule_.least, x);
      simd::store(values + i, rule_.scale * simd::log(bounded), n);
    });
  }

  const LogMelFrames& frames_;
  const LogMel::Tables& tables_;
  const RealFourier& transform_;
  const float* wave_;
  const float* window_;
  const int32_t* order_;
  const float* factors_;
  const float* filters_;
  const int32_t* bands_;
  LogMelRule rule_;
};

// Normalises columns first .. first + count of an utterance's features [length, width] to mean 0
// and deviation 1. Sums in double: the mean of a filter may be large and its variance small. The
// count is a compile-time constant if possible, for loops without a remainder.
template <class Count>
void standardise_columns(float* features, int64_t length, int64_t width, Count count) {
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

void log_mel_cpu(const LogMelFrames& frames, const LogMel::Tables& tables,
                 const at::Tensor& workspace, const at::Tensor& features) {
  const RealFourier transform(num_points(tables.options()));
  const FrameBlock block(frames, tables, transform);
  const int64_t num_frames = frames.num_frames();
  const int64_t room = transform.num_points() * kSignalsAtOnce;
  auto* const memory = workspace.mutable_data_ptr<float>();
  auto* const out = features.mutable_data_ptr<float>();
  const int64_t num_elements = num_frames * transform.num_points();
  parallel_tasks_of_workers(
      num_log_mel_tasks(num_frames), num_elements, workspace.size(0),
      [&](int64_t task, int64_t worker) {
        float* const own = memory + 2 * room * worker;
        const int64_t end = std::min(num_frames, (task + 1) * kLogMelFramesPerTask);
        for (int64_t first = task * kLogMelFramesPerTask; first < end; first += kSignalsAtOnce) {
          const int64_t count = std::min(kSignalsAtOnce, end - first);
          block.run(first, count, {.values = own, .other = own + room},
                    out + first * features.size(1));
        }
      });
}

void log_mel_limit_cpu(const at::Tensor& features, const LogMelFrames& frames) {
  const int64_t width = features.size(1);
  float* values = features.mutable_data_ptr<float>();
  parallel_tasks(std::ssize(frames.starts) - 1, features.numel(), [&](int64_t utterance) {
    const auto u = static_cast<size_t>(utterance);
    float* const first = values + frames.starts[u] * width;
    const int64_t size = (frames.starts[u + 1] - frames.starts[u]) * width;
    const simd::Lanes lowest = largest_of(first, size) - LogMelRange::kDepth;
    simd::for_each_block(size, [&](int64_t i, auto n) {
      const simd::Lanes limited = simd::max(simd::load(first + i, n), lowest);
      simd::store(first + i, (limited + LogMelRange::kOffset) / LogMelRange::kOffset, n);
    });
  });
}

void log_mel_standardise_cpu(const at::Tensor& features, const LogMelFrames& frames) {
  const int64_t width = features.size(1);
  const int64_t num_blocks = (width + simd::kLanes - 1) / simd::kLanes;
  float* values = features.mutable_data_ptr<float>();
  parallel_tasks((std::ssize(frames.starts) - 1) * num_blocks, features.numel(), [&](int64_t task) {
    const auto u = static_cast<size_t>(task / num_blocks);
    const int64_t column = task % num_blocks * simd::kLanes;
    const int64_t length = frames.starts[u + 1] - frames.starts[u];
    float* const first = values + frames.starts[u] * width + column;
    if (column + simd::kLanes <= width) {
      standardise_columns(first, length, width, std::integral_constant<int64_t, simd::kLanes>());
    } else {
      standardise_columns(first, length, width, width - column);
    }
  });
}

}  // namespace sotto::kernels::detail
