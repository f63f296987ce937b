#include <algorithm>
#include <array>

#include "sotto/kernels/convolution/depthwise_arrays.h"
#include "sotto/kernels/convolution/depthwise_convolution.h"
#include "sotto/kernels/simd/cpu_kernel.h"
#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::detail {

namespace {

using simd::Lanes;

// A core processes a tile of frames in a strip of channels: the frames that the tile sees are
// copied once, in fp32 and with zeros outside of the utterance, and stay in the nearest cache.
constexpr int64_t kTileFrames = 64;
constexpr int64_t kStripChannels = 32;
// Taps that are applied to one copy: more of them take several.
constexpr int64_t kTapsPerCopy = 64;
// Sums that are computed at once: as many as the registers hold, and independent of each other.
constexpr int64_t kSums = 4;

template <int64_t kRows>
struct StripRows {
  std::array<float, static_cast<size_t>(kRows) * kStripChannels> values;

  float* row(int64_t index) { return values.data() + index * kStripChannels; }
  const float* row(int64_t index) const { return values.data() + index * kStripChannels; }
};
using TileRows = StripRows<kTileFrames>;
using SeenRows = StripRows<kTileFrames + kTapsPerCopy - 1>;

struct ChannelStrip {
  int64_t first;
  int64_t count;
};

ChannelStrip strip_at(int64_t index, int64_t channels) {
  const int64_t first = index * kStripChannels;
  return {.first = first, .count = std::min(kStripChannels, channels - first)};
}

int64_t num_strips(int64_t channels) {
  return (channels + kStripChannels - 1) / kStripChannels;
}

FrameTiles<int64_t> tiles_of(const Packing& packing) {
  return {.starts = packing.starts().data(),
          .num_utterances = packing.num_utterances(),
          .size = kTileFrames};
}

// Copies `count` frames from `first` on, and zeros for those outside of the tile's utterance.
template <class T>
void copy_frames(const T* x, int64_t channels, const ChannelStrip& strip, const FrameTile& tile,
                 int64_t first, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i, to += kStripChannels) {
    const int64_t frame = first + i;
    if (frame < tile.first || frame >= tile.stop) {
      std::fill_n(to, kStripChannels, 0.0f);
      continue;
    }
    const T* from = x + frame * channels + strip.first;
    simd::for_each_block(strip.count, [&](int64_t c, auto n) {
      simd::store(to + c, simd::load(from + c, n), simd::Full{});
    });
  }
}

// Some of the taps, and where they are in fp32 [K, C].
struct TapRange {
  const float* rows;
  int64_t channels;
  int64_t first;
  int64_t count;

  const float* at(int64_t tap, int64_t channel) const {
    return rows + (first + tap) * channels + channel;
  }
};

// Adds the products of the frames seen with some taps to kSums adjacent rows of y.
void add_products(const SeenRows& seen, const TapRange& taps, const ChannelStrip& strip,
                  int64_t row, TileRows& y) {
  simd::for_each_block(strip.count, [&](int64_t c, auto n) {
    const float* from = seen.row(row) + c;
    float* to = y.row(row) + c;
    Lanes sums[kSums];
#pragma GCC unroll 4
    for (int64_t i = 0; i < kSums; ++i) sums[i] = simd::load(to + i * kStripChannels, simd::Full{});
    for (int64_t tap = 0; tap < taps.count; ++tap, from += kStripChannels) {
      const Lanes weight = simd::load(taps.at(tap, strip.first + c), n);
#pragma GCC unroll 4
      for (int64_t i = 0; i < kSums; ++i)
        sums[i] += weight * simd::load(from + i * kStripChannels, simd::Full{});
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < kSums; ++i) simd::store(to + i * kStripChannels, sums[i], simd::Full{});
  });
}

template <class T>
struct DepthwiseRows {
  const T* x;
  const float* taps;
  const float* bias;  // or null
  T* y;
  int64_t channels;
  int64_t num_taps;
};

template <class T>
void convolve_tile(const DepthwiseRows<T>& in, const FrameTile& tile, const ChannelStrip& strip) {
  TileRows y;
  std::array<float, kStripChannels> bias = {};
  if (in.bias != nullptr) std::copy_n(in.bias + strip.first, strip.count, bias.data());
  for (int64_t row = 0; row < kTileFrames; ++row) std::ranges::copy(bias, y.row(row));

  SeenRows seen;
  for (int64_t first = 0; first < in.num_taps; first += kTapsPerCopy) {
    const TapRange taps{.rows = in.taps,
                        .channels = in.channels,
                        .first = first,
                        .count = std::min(kTapsPerCopy, in.num_taps - first)};
    // Whole groups of rows are computed: those past the tile see frames too, and are not written.
    copy_frames(in.x, in.channels, strip, tile, tile.begin + first - in.num_taps / 2,
                kTileFrames + taps.count - 1, seen.row(0));
    for (int64_t row = 0; row < tile.size(); row += kSums) add_products(seen, taps, strip, row, y);
  }
  for (int64_t row = 0; row < tile.size(); ++row) {
    const float* from = y.row(row);
    T* to = in.y + (tile.begin + row) * in.channels + strip.first;
    simd::for_each_block(strip.count, [&](int64_t c, auto n) {
      simd::store(to + c, simd::load(from + c, simd::Full{}), n);
    });
  }
}

// The frames of a tile and those that it sees, in a strip of channels.
struct TileEnds {
  TileRows dy;
  SeenRows seen;
  int64_t num_frames;
};

// Adds the gradients of kSums adjacent taps over a tile to rows of sums [K, C]. Taps past the last
// are computed too, and not added.
void add_tap_gradients(const TileEnds& ends, const TapRange& taps, const ChannelStrip& strip,
                       int64_t tap, float* sums) {
  const int64_t num_added = std::min(kSums, taps.count - tap);
  simd::for_each_block(strip.count, [&](int64_t c, auto n) {
    const float* gradient = ends.dy.row(0) + c;
    const float* from = ends.seen.row(tap) + c;
    Lanes of_tile[kSums];
    for (int64_t row = 0; row < ends.num_frames; ++row) {
      const Lanes factor = simd::load(gradient + row * kStripChannels, simd::Full{});
#pragma GCC unroll 4
      for (int64_t i = 0; i < kSums; ++i)
        of_tile[i] += factor * simd::load(from + (row + i) * kStripChannels, simd::Full{});
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < kSums; ++i) {
      if (i >= num_added) break;
      float* to = sums + (taps.first + tap + i) * taps.channels + strip.first + c;
      simd::store(to, simd::load(to, n) + of_tile[i], n);
    }
  });
}

template <class T>
struct DepthwiseEnds {
  const T* dy;
  const T* x;
  int64_t channels;
  int64_t num_taps;
};

// Adds a tile's share of the gradients to the sums of its slab, [K + 1, C].
template <class T>
void accumulate_tile(const DepthwiseEnds<T>& in, const FrameTile& tile, const ChannelStrip& strip,
                     float* sums) {
  TileEnds ends = {.dy = {}, .seen = {}, .num_frames = tile.size()};
  copy_frames(in.dy, in.channels, strip, tile, tile.begin, tile.size(), ends.dy.row(0));
  for (int64_t first = 0; first < in.num_taps; first += kTapsPerCopy) {
    const TapRange taps{.rows = nullptr,
                        .channels = in.channels,
                        .first = first,
                        .count = std::min(kTapsPerCopy, in.num_taps - first)};
    copy_frames(in.x, in.channels, strip, tile, tile.begin + first - in.num_taps / 2,
                tile.size() + taps.count - 1, ends.seen.row(0));
    for (int64_t tap = 0; tap < taps.count; tap += kSums)
      add_tap_gradients(ends, taps, strip, tap, sums);
  }
  float* bias_sums = sums + in.num_taps * in.channels + strip.first;
  simd::for_each_block(strip.count, [&](int64_t c, auto n) {
    Lanes sum;
    for (int64_t row = 0; row < tile.size(); ++row)
      sum += simd::load(ends.dy.row(row) + c, simd::Full{});
    simd::store(bias_sums + c, simd::load(bias_sums + c, n) + sum, n);
  });
}

// Adds the sums of all slabs [S, K + 1, C], slab by slab, to the gradients [C, K] and [C].
void add_depthwise_slabs(const at::Tensor& partial,
                         const DepthwiseConvolution::Gradients& gradients) {
  const int64_t channels = gradients.weight.size(0), num_taps = gradients.weight.size(1);
  const int64_t slab_size = partial.size(1);
  float* first = partial.mutable_data_ptr<float>();
  for (int64_t slab = 1; slab < partial.size(0); ++slab) {
    const float* from = first + slab * slab_size;
    simd::for_each_block(slab_size, [&](int64_t i, auto n) {
      simd::store(first + i, simd::load(first + i, n) + simd::load(from + i, n), n);
    });
  }
  auto* weight = gradients.weight.mutable_data_ptr<float>();
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (int64_t tap = 0; tap < num_taps; ++tap)
      weight[channel * num_taps + tap] += first[tap * channels + channel];
  }
  if (gradients.bias == nullptr) return;
  auto* bias = gradients.bias->mutable_data_ptr<float>();
  for (int64_t channel = 0; channel < channels; ++channel)
    bias[channel] += first[num_taps * channels + channel];
}

}  // namespace

void depthwise_order_cpu(const at::Tensor& weight, const at::Tensor& taps, TapOrder order) {
  const int64_t channels = weight.size(0), num_taps = weight.size(1);
  float* to = taps.mutable_data_ptr<float>();
  with_element_type(weight, [&](auto zero) {
    using T = decltype(zero);
    const T* from = weight.const_data_ptr<T>();
    for (int64_t channel = 0; channel < channels; ++channel) {
      for (int64_t tap = 0; tap < num_taps; ++tap) {
        const int64_t row = order == TapOrder::kForward ? tap : num_taps - 1 - tap;
        to[row * channels + channel] = static_cast<float>(from[channel * num_taps + tap]);
      }
    }
  });
}

void depthwise_convolve_cpu(const at::Tensor& x, const at::Tensor& taps, const at::Tensor& bias,
                            const Packing& packing, const at::Tensor& y) {
  const int64_t channels = x.size(1), strips = num_strips(channels);
  const FrameTiles<int64_t> tiles = tiles_of(packing);
  const int64_t num_tiles =
      num_frame_tiles(packing.num_utterances(), packing.num_frames(), kTileFrames);
  with_element_type(x, [&](auto zero) {
    using T = decltype(zero);
    const DepthwiseRows<T> in{.x = x.const_data_ptr<T>(),
                              .taps = taps.const_data_ptr<float>(),
                              .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr,
                              .y = y.mutable_data_ptr<T>(),
                              .channels = channels,
                              .num_taps = taps.size(0)};
    const int64_t patch_size = kTileFrames * std::min(channels, kStripChannels) * taps.size(0);
    parallel_rows(num_tiles * strips, patch_size, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        convolve_tile(in, tiles.at(i / strips), strip_at(i % strips, channels));
    });
  });
}

void depthwise_accumulate_cpu(const DepthwiseConvolution::Gradients& gradients,
                              const DepthwiseConvolution::Ends& ends, const Packing& packing,
                              const at::Tensor& partial) {
  const int64_t channels = ends.x.size(1), strips = num_strips(channels);
  const int64_t num_slabs = partial.size(0);
  const FrameTiles<int64_t> tiles = tiles_of(packing);
  const int64_t num_tiles =
      num_frame_tiles(packing.num_utterances(), packing.num_frames(), kTileFrames);
  float* sums = partial.mutable_data_ptr<float>();
  std::fill_n(sums, partial.numel(), 0.0f);
  with_element_type(ends.x, [&](auto zero) {
    using T = decltype(zero);
    const DepthwiseEnds<T> in{.dy = ends.dy.const_data_ptr<T>(),
                              .x = ends.x.const_data_ptr<T>(),
                              .channels = channels,
                              .num_taps = gradients.weight.size(1)};
    at::parallel_for(0, num_slabs * strips, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t slab = i / strips;
        for (int64_t tile = num_tiles * slab / num_slabs; tile < num_tiles * (slab + 1) / num_slabs;
             ++tile) {
          accumulate_tile(in, tiles.at(tile), strip_at(i % strips, channels),
                          sums + slab * partial.size(1));
        }
      }
    });
  });
  add_depthwise_slabs(partial, gradients);
}

}  // namespace sotto::kernels::detail
