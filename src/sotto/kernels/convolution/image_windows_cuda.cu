#include "sotto/kernels/convolution/image_arrays.h"
#include "sotto/kernels/cuda/cuda_pack.cuh"

namespace sotto::kernels::detail {

namespace {

constexpr int kSide = static_cast<int>(ImageShape::kSize);
constexpr int kTaps = static_cast<int>(ImageShape::kTaps);

// A row of the grid has the windows of one frame of the output.
template <class T, int kSize>
__global__ void forward_kernel(ImageWindowArrays in) {
  const T* frames = static_cast<const T*>(in.frames.data);
  T* windows = static_cast<T*>(in.windows.data);
  const int channels = static_cast<int>(in.shape.channels);
  const int bins = static_cast<int>(in.shape.bins);
  const int64_t width = in.shape.windowed_width() * kTaps;
  UtteranceCursor utterance(in.to);
  for_each_row(in.to.num_frames, [&](int64_t row) {
    utterance.move_to(row);
    const int64_t begin = in.from.starts[utterance.utterance()];
    const int64_t end = in.from.starts[utterance.utterance() + 1];
    const int64_t first =
        begin + 2 * (row - utterance.start()) - in.shape.zeros_before(utterance.utterance());
    for_each_column<kSize>(width, [&](int64_t column) {
      const int cell = static_cast<int>(column) / channels;
      const int channel = static_cast<int>(column) - cell * channels;
      const int tap = cell % kTaps;
      const int64_t frame = first + tap / kSide;
      const int bin = 2 * (cell / kTaps) - 1 + tap % kSide;
      const bool is_inside = frame >= begin && frame < end && bin >= 0 && bin < bins;
      store(windows + row * width + column,
            is_inside ? load<kSize>(frames + (frame * bins + bin) * channels + channel)
                      : zero_vector<T, kSize>());
    });
  });
}

// A row of the grid is a frame. Computes the gradient of a value: the sum over all windows that
// contain it, in order.
template <class T, int kSize>
__global__ void backward_kernel(ImageWindowArrays in) {
  T* frames = static_cast<T*>(in.frames.data);
  const T* windows = static_cast<const T*>(in.windows.data);
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
          const Vector<T, kSize> part =
              load<kSize>(windows + (position * kTaps + tap) * channels + channel);
          for (int i = 0; i < kSize; ++i) sums.values[i] += part[i];
        }
      }
      Vector<T, kSize> result;
      for (int i = 0; i < kSize; ++i) result.set(i, sums[i]);
      store(frames + row * width + column, result);
    });
  });
}

template <class Body>
void with_choices(const ImageWindowArrays& in, Body body) {
  with_cuda_type(in.frames.type, [&](auto zero) {
    const bool fits = fits_vectors(in.shape.channels, {in.frames.data, in.windows.data});
    with_vector_size(fits, [&](auto size) { body(zero, size); });
  });
}

}  // namespace

void image_windows_forward_cuda(const ImageWindowArrays& in, void* stream) {
  with_choices(in, [&](auto zero, auto size) {
    const int64_t width = in.shape.windowed_width() * kTaps;
    const RowGrid grid = row_grid(in.to.num_frames, width / size);
    forward_kernel<decltype(zero), size>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("image windows forward");
}

void image_windows_backward_cuda(const ImageWindowArrays& in, void* stream) {
  with_choices(in, [&](auto zero, auto size) {
    const RowGrid grid = row_grid(in.from.num_frames, in.shape.width() / size);
    backward_kernel<decltype(zero), size>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("image windows backward");
}

}  // namespace sotto::kernels::detail
