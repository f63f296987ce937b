#include "sotto/kernels/convolution/image_depthwise.h"

#include <algorithm>
#include <array>

#include "sotto/kernels/convolution/image_rows.h"
#include "sotto/kernels/convolution/image_tensors.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

// TapProducts of channels with taps that are added up: nine at most, in the order of the taps.
template <class T>
struct TapProducts {
  struct Product {
    const T* values;    // [C]
    const float* taps;  // [C]
  };

  std::array<Product, ImageShape::kTaps> at;
  size_t count = 0;
};

// to = start + sum of products; null: starts at zero.
template <class T>
void add_products(const TapProducts<T>& products, const float* start, T* to, int64_t channels) {
  simd::for_each_block(channels, [&](int64_t i, auto n) {
    simd::Lanes sum;  // zeros
    if (start != nullptr) sum = simd::load(start + i, n);
    for (size_t p = 0; p < products.count; ++p) {
      const auto& product = products.at[p];
      sum = sum + simd::load(product.values + i, n) * simd::load(product.taps + i, n);
    }
    simd::store(to + i, sum, n);
  });
}

// The frames that the windows of a row see, null outside of the utterance.
template <class T>
std::array<const T*, ImageShape::kSize> frames_under(const ImageRow& window, const T* x,
                                                     const ImageTensors& in) {
  const auto utterance = static_cast<size_t>(window.utterance);
  const int64_t first = 2 * window.frame - in.shape.zeros_before(window.utterance);
  std::array<const T*, ImageShape::kSize> frames = {};
  for (int64_t i = 0; i < ImageShape::kSize; ++i) {
    const int64_t frame = first + i;
    if (frame < 0 || frame >= in.packings.from.lengths()[utterance]) continue;
    frames[static_cast<size_t>(i)] =
        x + (in.packings.from.starts()[utterance] + frame) * in.shape.width();
  }
  return frames;
}

// Bins that a window sees: from tap `first` to `end`.
struct SeenBins {
  int64_t first;
  int64_t end;

  SeenBins(int64_t window, const ImageShape& shape)
      : first(window == 0 ? 1 : 0), end(std::min(ImageShape::kSize, shape.bins - 2 * window + 1)) {}
};

// The values under the nine taps of a window, null outside of the utterance or of the bins.
template <class T>
using UnderTaps = std::array<const T*, ImageShape::kTaps>;

template <class T>
UnderTaps<T> values_under(const std::array<const T*, ImageShape::kSize>& frames, int64_t window,
                          const ImageShape& shape) {
  const SeenBins bins(window, shape);
  UnderTaps<T> values = {};
  for (int64_t i = 0; i < ImageShape::kTaps; ++i) {
    const T* frame = frames[static_cast<size_t>(i / ImageShape::kSize)];
    const int64_t bin = i % ImageShape::kSize;
    if (frame != nullptr && bin >= bins.first && bin < bins.end)
      values[static_cast<size_t>(i)] = frame + (2 * window - 1 + bin) * shape.channels;
  }
  return values;
}

// Positions whose products are added while the sums of some channels stay in registers.
constexpr int64_t kPositionsAtOnce = 32;

template <class T>
struct Position {
  const T* dy;
  UnderTaps<T> x;
};

// sums [10, C] += products of dy with the values under the taps, and dy itself.
template <class T>
void add_positions(const std::array<Position<T>, kPositionsAtOnce>& positions, size_t count,
                   float* sums, int64_t channels) {
  simd::for_each_block(channels, [&](int64_t i, auto n) {
    simd::Lanes held[ImageShape::kTaps + 1];
    for (int64_t tap = 0; tap <= ImageShape::kTaps; ++tap)
      held[tap] = simd::load(sums + tap * channels + i, n);
    for (size_t p = 0; p < count; ++p) {
      const simd::Lanes dy = simd::load(positions[p].dy + i, n);
#pragma GCC unroll 9
      for (int64_t tap = 0; tap < ImageShape::kTaps; ++tap) {
        const T* x = positions[p].x[static_cast<size_t>(tap)];
        if (x != nullptr) held[tap] = held[tap] + dy * simd::load(x + i, n);
      }
      held[ImageShape::kTaps] = held[ImageShape::kTaps] + dy;
    }
    for (int64_t tap = 0; tap <= ImageShape::kTaps; ++tap)
      simd::store(sums + tap * channels + i, held[tap], n);
  });
}

// Adds up the positions begin .. end of the output, bin by bin of frame by frame, into sums [10,
// C].
template <class T>
void sum_positions(const ImageTensors& in, int64_t begin, int64_t end, float* sums) {
  const int64_t bins = in.shape.windowed_bins(), channels = in.shape.channels;
  const T* x = in.frames.const_data_ptr<T>();
  const T* dy = in.outputs.const_data_ptr<T>();
  std::array<Position<T>, kPositionsAtOnce> positions;
  size_t count = 0;
  walk_image_rows(in.packings.to, begin / bins, (end + bins - 1) / bins,
                  [&](const ImageRow& window) {
                    const auto frames = frames_under(window, x, in);
                    const int64_t first = window.row * bins;
                    for (int64_t p = std::max(begin, first); p < std::min(end, first + bins); ++p) {
                      positions[count++] = {.dy = dy + p * channels,
                                            .x = values_under(frames, p - first, in.shape)};
                      if (std::ssize(positions) > static_cast<int64_t>(count)) continue;
                      add_positions(positions, count, sums, channels);
                      count = 0;
                    }
                  });
  add_positions(positions, count, sums, channels);
}

}  // namespace

void image_depthwise_order_cpu(const at::Tensor& weight, const at::Tensor& taps) {
  const int64_t channels = weight.size(0);
  float* to = taps.mutable_data_ptr<float>();
  with_element_type(weight, [&](auto zero) {
    const auto* from = weight.const_data_ptr<decltype(zero)>();
    for (int64_t channel = 0; channel < channels; ++channel) {
      for (int64_t tap = 0; tap < ImageShape::kTaps; ++tap)
        to[tap * channels + channel] = static_cast<float>(from[channel * ImageShape::kTaps + tap]);
    }
  });
}

void image_depthwise_forward_cpu(const ImageTensors& in, const at::Tensor& bias) {
  const int64_t bins = in.shape.windowed_bins(), channels = in.shape.channels;
  const float* start = bias.const_data_ptr<float>();
  const float* taps = in.taps.const_data_ptr<float>();
  with_element_type(in.frames, [&](auto zero) {
    using T = decltype(zero);
    const T* x = in.frames.const_data_ptr<T>();
    T* y = in.outputs.mutable_data_ptr<T>();
    const int64_t work = in.shape.windowed_width() * ImageShape::kTaps;
    for_each_image_row(in.packings.to, work, [&](const ImageRow& window) {
      const auto frames = frames_under(window, x, in);
      for (int64_t bin = 0; bin < bins; ++bin) {
        const UnderTaps<T> values = values_under(frames, bin, in.shape);
        TapProducts<T> products;
        for (int64_t tap = 0; tap < ImageShape::kTaps; ++tap) {
          const T* under = values[static_cast<size_t>(tap)];
          if (under != nullptr)
            products.at[products.count++] = {.values = under, .taps = taps + tap * channels};
        }
        add_products(products, start, y + (window.row * bins + bin) * channels, channels);
      }
    });
  });
}

void image_depthwise_input_gradient_cpu(const ImageTensors& in) {
  const int64_t windowed_bins = in.shape.windowed_bins(), channels = in.shape.channels;
  const float* taps = in.taps.const_data_ptr<float>();
  with_element_type(in.frames, [&](auto zero) {
    using T = decltype(zero);
    const T* dy = in.outputs.const_data_ptr<T>();
    T* dx = in.frames.mutable_data_ptr<T>();
    for_each_image_row(
        in.packings.from, in.shape.width() * ImageShape::kSize, [&](const ImageRow& row) {
          const auto utterance = static_cast<size_t>(row.utterance);
          const int64_t zeros_before = in.shape.zeros_before(row.utterance);
          const SeeingWindows frames =
              SeeingWindows::of(row.frame, zeros_before, in.packings.to.lengths()[utterance]);
          for (int64_t bin = 0; bin < in.shape.bins; ++bin) {
            const SeeingWindows bins = SeeingWindows::of(bin, 1, windowed_bins);
            TapProducts<T> products;
            for (int64_t m = frames.first; m <= frames.last; ++m) {
              const int64_t window = in.packings.to.starts()[utterance] + m;
              for (int64_t b = bins.first; b <= bins.last; ++b) {
                const int64_t tap =
                    (row.frame + zeros_before - 2 * m) * ImageShape::kSize + bin + 1 - 2 * b;
                products.at[products.count++] = {
                    .values = dy + (window * windowed_bins + b) * channels,
                    .taps = taps + tap * channels};
              }
            }
            add_products(products, nullptr, dx + (row.row * in.shape.bins + bin) * channels,
                         channels);
          }
        });
  });
}

void image_depthwise_accumulate_cpu(const ImageTensors& in) {
  const int64_t size = in.taps.size(1) * in.taps.size(2);
  float* sums = in.taps.mutable_data_ptr<float>();
  with_element_type(in.frames, [&](auto zero) {
    const int64_t num_positions = in.outputs.size(0) * in.shape.windowed_bins();
    parallel_slabs(num_positions, [&](int64_t slab, int64_t begin, int64_t end) {
      std::fill_n(sums + slab * size, size, 0.0f);
      sum_positions<decltype(zero)>(in, begin, end, sums + slab * size);
    });
  });
}

void image_depthwise_fold_cpu(const at::Tensor& partial, const ImageDepthwise::Gradients& to) {
  const int64_t channels = partial.size(2);
  const float* from = partial.const_data_ptr<float>();
  float* weight = to.weight.mutable_data_ptr<float>();
  for (int64_t slab = 0; slab < partial.size(0);
       ++slab, from += (ImageShape::kTaps + 1) * channels) {
    for (int64_t channel = 0; channel < channels; ++channel) {
      for (int64_t tap = 0; tap < ImageShape::kTaps; ++tap)
        weight[channel * ImageShape::kTaps + tap] += from[tap * channels + channel];
    }
    add_slabs(from + ImageShape::kTaps * channels, {to.bias.mutable_data_ptr<float>()}, 1,
              channels);
  }
}

}  // namespace sotto::kernels::detail
