#include "sotto/kernels/convolution/depthwise_arrays.h"
#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/cuda/cuda_slabs.cuh"

namespace sotto::kernels::detail {

namespace {

// A warp processes a tile of frames in a strip of channels, some taps at a time: the tile's sums
// and these taps stay in registers. Each frame is read from memory once; other warps of the block
// and the next taps find it in a cache.
constexpr int kTileFrames = 16;
constexpr int kTapsAtOnce = 16;
constexpr int kWarps = kStripWarps;
// Number of blocks whose registers a multiprocessor must hold at once, so that some compute while
// others wait for memory.
constexpr int kBlocksPerProcessor = 2;
// Two channels per thread: with 16-bit elements a warp reads whole lines of 128 bytes.
constexpr int kPair = 2;

using Tiles = FrameTiles<int32_t>;

__device__ Tiles tiles_of(const CudaPack& pack) {
  return {.starts = pack.starts, .num_utterances = pack.num_utterances, .size = kTileFrames};
}

// Reads adjacent frames, this thread's channels: zeros for those outside of first .. stop.
template <class T, int kSize>
class SeenFrames {
 public:
  // `start`: the frame with index 0, which may be outside itself.
  __device__ SeenFrames(const CudaArray& x, int64_t channel, int64_t start, int64_t first,
                        int64_t stop)
      : start_(static_cast<const T*>(x.data) + start * x.width + channel),
        width_(x.width),
        first_(static_cast<int>(first - start)),
        stop_(static_cast<int>(stop - start)) {}

  __device__ Vector<float, kSize> at(int index) const {
    Vector<T, kSize> values = zero_vector<T, kSize>();
    if (index >= first_ && index < stop_) values = load<kSize>(start_ + index * width_);
    Vector<float, kSize> result;
    for (int i = 0; i < kSize; ++i) result.values[i] = values[i];
    return result;
  }

 private:
  const T* start_;
  int64_t width_;
  int first_;
  int stop_;
};

// --- taps

template <class T>
__global__ void order_kernel(const T* weight, float* taps, int64_t channels, int64_t num_taps,
                             TapOrder order) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (channel >= channels) return;
  for (int64_t tap = blockIdx.y; tap < num_taps; tap += gridDim.y) {
    const int64_t row = order == TapOrder::kForward ? tap : num_taps - 1 - tap;
    taps[row * channels + channel] = static_cast<float>(weight[channel * num_taps + tap]);
  }
}

// --- forward, and the gradient of the input

template <class T, int kSize>
__global__ void __launch_bounds__(kWarp* kWarps, kBlocksPerProcessor)
    convolve_kernel(DepthwiseArrays in, CudaPack pack) {
  const int64_t width = in.x.width;
  const int64_t num_taps = in.taps.rows;
  const int64_t channel = (static_cast<int64_t>(blockIdx.y) * kWarp + threadIdx.x) * kSize;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.y;
  if (channel >= width ||
      index >= num_frame_tiles(pack.num_utterances, pack.num_frames, kTileFrames))
    return;
  const FrameTile tile = tiles_of(pack).at(index);
  if (tile.size() <= 0) return;
  Vector<float, kSize> sums[kTileFrames];
#pragma unroll
  for (int row = 0; row < kTileFrames; ++row) {
    sums[row] = in.bias.data == nullptr
                    ? zero_vector<float, kSize>()
                    : load<kSize>(static_cast<const float*>(in.bias.data) + channel);
  }

  for (int64_t first_tap = 0; first_tap < num_taps; first_tap += kTapsAtOnce) {
    Vector<float, kSize> taps[kTapsAtOnce];
#pragma unroll
    for (int tap = 0; tap < kTapsAtOnce; ++tap) {
      taps[tap] = zero_vector<float, kSize>();
      if (first_tap + tap < num_taps)
        taps[tap] = load<kSize>(static_cast<const float*>(in.taps.data) +
                                (first_tap + tap) * width + channel);
    }
    const SeenFrames<T, kSize> x(in.x, channel, tile.begin + first_tap - num_taps / 2, tile.first,
                                 tile.stop);
#pragma unroll
    for (int seen = 0; seen < kTileFrames + kTapsAtOnce - 1; ++seen) {
      const Vector<float, kSize> frame = x.at(seen);
#pragma unroll
      for (int row = 0; row < kTileFrames; ++row) {
        const int tap = seen - row;
        if (tap < 0 || tap >= kTapsAtOnce) continue;
        for (int i = 0; i < kSize; ++i) sums[row].values[i] += taps[tap][i] * frame[i];
      }
    }
  }

  T* y = static_cast<T*>(in.y.data) + tile.begin * width + channel;
#pragma unroll
  for (int row = 0; row < kTileFrames; ++row) {
    if (row >= tile.size()) break;
    Vector<T, kSize> result;
    for (int i = 0; i < kSize; ++i) result.set(i, sums[row][i]);
    store(y + row * width, result);
  }
}

// --- gradients of weight and bias

// A block sums the tiles of a slab, blockIdx.y, for one strip of channels, blockIdx.z, and some of
// the taps, blockIdx.x: blocks that read the same frames run at the same time. The sum of dy itself
// is the bias's gradient. partial [slabs, K + 1, C].
template <class T, int kSize>
__global__ void __launch_bounds__(kWarp* kWarps, kBlocksPerProcessor)
    slab_gradients_kernel(DepthwiseGradients in, CudaPack pack) {
  __shared__ alignas(16) float buffer[kWarps * kStripColumns<kSize>];
  const int64_t width = in.x.width;
  const int64_t first_channel = static_cast<int64_t>(blockIdx.z) * kStripColumns<kSize>;
  const int64_t channel = first_channel + threadIdx.x * kSize;
  const int64_t first_tap = static_cast<int64_t>(blockIdx.x) * kTapsAtOnce;
  const int64_t num_tiles = num_frame_tiles(pack.num_utterances, pack.num_frames, kTileFrames);
  const int64_t begin = num_tiles * blockIdx.y / gridDim.y;
  const int64_t end = num_tiles * (blockIdx.y + 1) / gridDim.y;
  Vector<float, kSize> sums[kTapsAtOnce];
#pragma unroll
  for (int tap = 0; tap < kTapsAtOnce; ++tap) sums[tap] = zero_vector<float, kSize>();
  Vector<float, kSize> bias_sum = zero_vector<float, kSize>();

  for (int64_t index = begin + threadIdx.y; index < end; index += kWarps) {
    const FrameTile tile = tiles_of(pack).at(index);
    if (channel >= width || tile.size() <= 0) continue;
    const SeenFrames<T, kSize> dy(in.dy, channel, tile.begin, tile.begin, tile.end);
    const SeenFrames<T, kSize> x(in.x, channel, tile.begin + first_tap - in.num_taps / 2,
                                 tile.first, tile.stop);
    Vector<float, kSize> gradients[kTileFrames];
#pragma unroll
    for (int row = 0; row < kTileFrames; ++row) {
      gradients[row] = dy.at(row);
      for (int i = 0; i < kSize; ++i) bias_sum.values[i] += gradients[row][i];
    }
#pragma unroll
    for (int seen = 0; seen < kTileFrames + kTapsAtOnce - 1; ++seen) {
      const Vector<float, kSize> frame = x.at(seen);
#pragma unroll
      for (int row = 0; row < kTileFrames; ++row) {
        const int tap = seen - row;
        if (tap < 0 || tap >= kTapsAtOnce) continue;
        for (int i = 0; i < kSize; ++i) sums[tap].values[i] += gradients[row][i] * frame[i];
      }
    }
  }

  float* to = static_cast<float*>(in.partial.data) + blockIdx.y * in.partial.width + first_channel;
#pragma unroll
  for (int tap = 0; tap < kTapsAtOnce; ++tap) {
    if (first_tap + tap >= in.num_taps) break;
    store_sum_over_y(sums[tap], buffer, to + (first_tap + tap) * width, width - first_channel);
  }
  if (first_tap == 0)
    store_sum_over_y(bias_sum, buffer, to + in.num_taps * width, width - first_channel);
}

// Adds the slabs, in order, of one tap or of the bias, blockIdx.y, to the gradients.
__global__ void add_depthwise_slabs_kernel(DepthwiseGradients in) {
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t width = in.x.width;
  if (channel >= width) return;
  for (int64_t tap = blockIdx.y; tap <= in.num_taps; tap += gridDim.y) {
    const float* from = static_cast<const float*>(in.partial.data) + tap * width + channel;
    float sum = 0.0f;
#pragma unroll 8
    for (int64_t slab = 0; slab < in.partial.rows; ++slab) sum += from[slab * in.partial.width];
    if (tap < in.num_taps) {
      static_cast<float*>(in.grad_weight.data)[channel * in.num_taps + tap] += sum;
    } else if (in.grad_bias.data != nullptr) {
      static_cast<float*>(in.grad_bias.data)[channel] += sum;
    }
  }
}

// Calls body(size) with the number of channels per thread.
template <class Body>
void with_pairs(bool fits, Body body) {
  if (fits) {
    body(std::integral_constant<int, kPair>{});
  } else {
    body(std::integral_constant<int, 1>{});
  }
}

unsigned blocks_for(int64_t count, int64_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

constexpr int64_t kChannelThreads = 128;
constexpr int64_t kMaxTapBlocks = 65'535;

// Threads for channels, blocks for taps.
dim3 tap_blocks(int64_t channels, int64_t num_taps) {
  return {blocks_for(channels, kChannelThreads),
          static_cast<unsigned>(std::min(num_taps, kMaxTapBlocks))};
}

}  // namespace

void depthwise_order_cuda(const CudaArray& weight, const CudaArray& taps, TapOrder order,
                          void* stream) {
  with_cuda_type(weight.type, [&](auto zero) {
    order_kernel<<<tap_blocks(weight.rows, weight.width), kChannelThreads, 0,
                   static_cast<cudaStream_t>(stream)>>>(
        data_of<decltype(zero)>(weight), data_of<float>(taps), weight.rows, weight.width, order);
  });
  check_launch("depthwise convolution order");
}

void depthwise_convolve_cuda(const DepthwiseArrays& in, const CudaPack& pack, void* stream) {
  const int64_t tiles = num_frame_tiles(pack.num_utterances, pack.num_frames, kTileFrames);
  const bool fits = fits_vectors(in.x.width, {in.x.data, in.taps.data, in.bias.data, in.y.data});
  with_cuda_type(in.x.type, [&](auto zero) {
    with_pairs(fits, [&](auto size) {
      const dim3 blocks(blocks_for(tiles, kWarps), blocks_for(in.x.width, kStripColumns<size>));
      convolve_kernel<decltype(zero), size>
          <<<blocks, dim3(kWarp, kWarps), 0, static_cast<cudaStream_t>(stream)>>>(in, pack);
    });
  });
  check_launch("depthwise convolution");
}

void depthwise_accumulate_cuda(const DepthwiseGradients& in, const CudaPack& pack, void* stream) {
  const bool fits = fits_vectors(in.x.width, {in.dy.data, in.x.data, in.partial.data});
  with_cuda_type(in.x.type, [&](auto zero) {
    with_pairs(fits, [&](auto size) {
      const dim3 blocks(blocks_for(in.num_taps, kTapsAtOnce),
                        static_cast<unsigned>(in.partial.rows),
                        blocks_for(in.x.width, kStripColumns<size>));
      slab_gradients_kernel<decltype(zero), size>
          <<<blocks, dim3(kWarp, kWarps), 0, static_cast<cudaStream_t>(stream)>>>(in, pack);
    });
  });
  check_launch("depthwise convolution gradients");
  add_depthwise_slabs_kernel<<<tap_blocks(in.x.width, in.num_taps + 1), kChannelThreads, 0,
                               static_cast<cudaStream_t>(stream)>>>(in);
  check_launch("depthwise convolution sum of slabs");
}

}  // namespace sotto::kernels::detail
