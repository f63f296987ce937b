#include "sotto/kernels/convolution/image_arrays.h"
#include "sotto/kernels/cuda/cuda_pack.cuh"
#include "sotto/kernels/cuda/cuda_slabs.cuh"

namespace sotto::kernels::detail {

namespace {

constexpr int kSide = static_cast<int>(ImageShape::kSize);
constexpr int kTaps = static_cast<int>(ImageShape::kTaps);

template <class T>
__global__ void order_kernel(const T* weight, float* taps, int channels) {
  for_each_vector<1>(int64_t{kTaps} * channels, [&](int64_t i, auto) {
    const int tap = static_cast<int>(i) / channels;
    const int channel = static_cast<int>(i) - tap * channels;
    taps[i] = static_cast<float>(weight[channel * kTaps + tap]);
  });
}

template <int kSize>
__device__ void add_product(Vector<float, kSize>& sums, const auto& values, const float* taps) {
  const Vector<float, kSize> factors = load<kSize>(taps);
  for (int i = 0; i < kSize; ++i) sums.values[i] += values[i] * factors[i];
}

template <class T, int kSize>
__device__ void store_rounded(T* to, const Vector<float, kSize>& sums) {
  Vector<T, kSize> result;
  for (int i = 0; i < kSize; ++i) result.set(i, sums[i]);
  store(to, result);
}

// A row of the grid is a frame of the output.
template <class T, int kSize>
__global__ void forward_kernel(ImageDepthwiseArrays in) {
  const T* x = static_cast<const T*>(in.frames.data);
  T* y = static_cast<T*>(in.outputs.data);
  const float* taps = static_cast<const float*>(in.taps.data);
  const float* bias = static_cast<const float*>(in.bias.data);
  const int channels = static_cast<int>(in.shape.channels);
  const int bins = static_cast<int>(in.shape.bins);
  const int64_t width = in.shape.windowed_width();
  UtteranceCursor utterance(in.to);
  for_each_row(in.to.num_frames, [&](int64_t row) {
    utterance.move_to(row);
    const int64_t begin = in.from.starts[utterance.utterance()];
    const int64_t end = in.from.starts[utterance.utterance() + 1];
    const int64_t first =
        begin + 2 * (row - utterance.start()) - in.shape.zeros_before(utterance.utterance());
    for_each_column<kSize>(width, [&](int64_t column) {
      const int window = static_cast<int>(column) / channels;
      const int channel = static_cast<int>(column) - window * channels;
      Vector<float, kSize> sums = load<kSize>(bias + channel);
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const int64_t frame = first + tap / kSide;
        const int bin = 2 * window - 1 + tap % kSide;
        if (frame < begin || frame >= end || bin < 0 || bin >= bins) continue;
        add_product<kSize>(sums, load<kSize>(x + (frame * bins + bin) * channels + channel),
                           taps + tap * channels + channel);
      }
      store_rounded(y + row * width + column, sums);
    });
  });
}

// A row of the grid is a frame of the input.
template <class T, int kSize>
__global__ void input_gradient_kernel(ImageDepthwiseArrays in) {
  const T* dy = static_cast<const T*>(in.outputs.data);
  T* dx = static_cast<T*>(in.frames.data);
  const float* taps = static_cast<const float*>(in.taps.data);
  const int channels = static_cast<int>(in.shape.channels);
  const int64_t windowed_bins = in.shape.windowed_bins();
  const int64_t width = in.shape.width();
  UtteranceCursor utterance(in.from);
  for_each_row(in.from.num_frames, [&](int64_t row) {
    utterance.move_to(row);
    const int64_t begin = in.to.starts[utterance.utterance()];
    const int64_t end = in.to.starts[utterance.utterance() + 1];
    const int64_t zeros_before = in.shape.zeros_before(utterance.utterance());
    const int64_t frame = row - utterance.start();
    const SeeingWindows in_time = SeeingWindows::of(frame, zeros_before, end - begin);
    for_each_column<kSize>(width, [&](int64_t column) {
      const int bin = static_cast<int>(column) / channels;
      const int channel = static_cast<int>(column) - bin * channels;
      const SeeingWindows in_bins = SeeingWindows::of(bin, 1, windowed_bins);
      Vector<float, kSize> sums = zero_vector<float, kSize>();
      for (int64_t m = in_time.first; m <= in_time.last; ++m) {
        for (int64_t b = in_bins.first; b <= in_bins.last; ++b) {
          const int64_t tap = (frame + zeros_before - 2 * m) * kSide + bin + 1 - 2 * b;
          const int64_t position = (begin + m) * windowed_bins + b;
          add_product<kSize>(sums, load<kSize>(dy + position * channels + channel),
                             taps + tap * channels + channel);
        }
      }
      store_rounded(dx + row * width + column, sums);
    });
  });
}

// A block adds up the positions of a slab for one strip of channels; position p is bin p % F' of
// output frame p / F'.
template <class T, int kSize>
__global__ void accumulate_kernel(ImageDepthwiseArrays in) {
  __shared__ alignas(16) float buffer[kStripWarps * kStripColumns<kSize>];
  const T* x = static_cast<const T*>(in.frames.data);
  const T* dy = static_cast<const T*>(in.outputs.data);
  const int64_t channels = in.shape.channels;
  const int bins = static_cast<int>(in.shape.bins);
  const auto windowed_bins = static_cast<unsigned>(in.shape.windowed_bins());
  const int64_t positions = in.to.num_frames * in.shape.windowed_bins();
  const int64_t begin = positions * blockIdx.x / gridDim.x;
  const int64_t end = positions * (blockIdx.x + 1) / gridDim.x;
  const int64_t first_channel = static_cast<int64_t>(blockIdx.y) * kStripColumns<kSize>;
  const int64_t channel = first_channel + threadIdx.x * kSize;
  Vector<float, kSize> sums[kTaps + 1];
  for (auto& sum : sums) sum = zero_vector<float, kSize>();
  UtteranceCursor utterance(in.to);
  if (channel < channels) {
    for (int64_t position = begin + threadIdx.y; position < end; position += kStripWarps) {
      const int64_t row = static_cast<unsigned>(position) / windowed_bins;
      const int window = static_cast<int>(position - row * windowed_bins);
      utterance.move_to(row);
      const int64_t first_frame = in.from.starts[utterance.utterance()];
      const int64_t end_frame = in.from.starts[utterance.utterance() + 1];
      const int64_t first = first_frame + 2 * (row - utterance.start()) -
                            in.shape.zeros_before(utterance.utterance());
      const Vector<T, kSize> gradient = load<kSize>(dy + position * channels + channel);
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const int64_t frame = first + tap / kSide;
        const int bin = 2 * window - 1 + tap % kSide;
        if (frame < first_frame || frame >= end_frame || bin < 0 || bin >= bins) continue;
        const Vector<T, kSize> values = load<kSize>(x + (frame * bins + bin) * channels + channel);
        for (int i = 0; i < kSize; ++i) sums[tap].values[i] += gradient[i] * values[i];
      }
      for (int i = 0; i < kSize; ++i) sums[kTaps].values[i] += gradient[i];
    }
  }
  float* partial =
      static_cast<float*>(in.taps.data) + blockIdx.x * (kTaps + 1) * channels + first_channel;
#pragma unroll
  for (int tap = 0; tap <= kTaps; ++tap)
    store_sum_over_y(sums[tap], buffer, partial + tap * channels, channels - first_channel);
}

// A thread adds the slabs of one channel and tap.
__global__ void fold_kernel(const float* partial, int num_slabs, float* weight, float* bias,
                            int channels) {
  const int size = (kTaps + 1) * channels;
  for_each_vector<1>(size, [&](int64_t i, auto) {
    float total = 0.0f;
#pragma unroll 8
    for (int slab = 0; slab < num_slabs; ++slab) total += partial[int64_t{slab} * size + i];
    const int tap = static_cast<int>(i) / channels;
    const int channel = static_cast<int>(i) - tap * channels;
    float* to = tap == kTaps ? bias + channel : weight + channel * kTaps + tap;
    *to += total;
  });
}

template <class Body>
void with_choices(const ImageDepthwiseArrays& in, Body body) {
  with_cuda_type(in.frames.type, [&](auto zero) {
    const bool fits = fits_vectors(in.shape.channels,
                                   {in.frames.data, in.outputs.data, in.taps.data, in.bias.data});
    with_vector_size(fits, [&](auto size) { body(zero, size); });
  });
}

void order_taps(const ImageDepthwiseArrays& in, cudaStream_t stream) {
  const LaunchShape grid = launch_shape(in.taps.num_elements());
  with_cuda_type(in.weight.type, [&](auto zero) {
    order_kernel<<<grid.blocks, grid.threads, 0, stream>>>(data_of<const decltype(zero)>(in.weight),
                                                           data_of<float>(in.taps),
                                                           static_cast<int>(in.shape.channels));
  });
  check_launch("image depthwise order");
}

}  // namespace

void image_depthwise_forward_cuda(const ImageDepthwiseArrays& in, void* stream) {
  order_taps(in, static_cast<cudaStream_t>(stream));
  with_choices(in, [&](auto zero, auto size) {
    const RowGrid grid = row_grid(in.to.num_frames, in.shape.windowed_width() / size);
    forward_kernel<decltype(zero), size>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("image depthwise forward");
}

void image_depthwise_input_gradient_cuda(const ImageDepthwiseArrays& in, void* stream) {
  order_taps(in, static_cast<cudaStream_t>(stream));
  with_choices(in, [&](auto zero, auto size) {
    const RowGrid grid = row_grid(in.from.num_frames, in.shape.width() / size);
    input_gradient_kernel<decltype(zero), size>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("image depthwise input gradient");
}

void image_depthwise_accumulate_cuda(const ImageDepthwiseArrays& in, int64_t num_slabs,
                                     void* stream) {
  const int64_t channels = in.shape.channels;
  with_choices(in, [&](auto zero, auto size) {
    const int64_t strips = (channels + kStripColumns<size> - 1) / kStripColumns<size>;
    const dim3 blocks(static_cast<unsigned>(num_slabs), static_cast<unsigned>(strips));
    accumulate_kernel<decltype(zero), size>
        <<<blocks, dim3(32, kStripWarps), 0, static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("image depthwise accumulate");
  const LaunchShape grid = launch_shape((kTaps + 1) * channels);
  fold_kernel<<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(
      data_of<const float>(in.taps), static_cast<int>(num_slabs), data_of<float>(in.weight),
      data_of<float>(in.bias), static_cast<int>(channels));
  check_launch("image depthwise fold");
}

}  // namespace sotto::kernels::detail
