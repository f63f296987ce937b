#include "sotto/kernels/convolution/window_arrays.h"
#include "sotto/kernels/cuda/cuda_pack.cuh"

namespace sotto::kernels::detail {

namespace {

template <class T, int kSize>
__global__ void forward_kernel(FrameWindowArrays in) {
  const T* frames = static_cast<const T*>(in.frames.data);
  T* windows = static_cast<T*>(in.windows.data);
  const int64_t width = in.frames.width;
  UtteranceCursor utterance(in.to);
  for_each_row(in.to.num_frames, [&](int64_t row) {
    utterance.move_to(row);
    const int64_t begin = in.from.starts[utterance.utterance()];
    const int64_t end = in.from.starts[utterance.utterance() + 1];
    const int64_t first = begin + (row - utterance.start()) * in.stride - in.before;
    for (int64_t index = 0; index < in.size; ++index) {
      const int64_t frame = first + index;
      const bool is_inside = frame >= begin && frame < end;
      for_each_column<kSize>(width, [&](int64_t column) {
        store(windows + (row * in.size + index) * width + column,
              is_inside ? load<kSize>(frames + frame * width + column) : zero_vector<T, kSize>());
      });
    }
  });
}

// Computes the gradient of a frame: the sum over all windows that contain it, in order.
template <class T, int kSize>
__global__ void backward_kernel(FrameWindowArrays in) {
  T* frames = static_cast<T*>(in.frames.data);
  const T* windows = static_cast<const T*>(in.windows.data);
  const int64_t width = in.frames.width;
  UtteranceCursor utterance(in.from);
  for_each_row(in.from.num_frames, [&](int64_t row) {
    utterance.move_to(row);
    const int64_t begin = in.to.starts[utterance.utterance()];
    const int64_t num_windows = in.to.starts[utterance.utterance() + 1] - begin;
    const int64_t shifted = row - utterance.start() + in.before;
    const int64_t last = min(shifted / in.stride, num_windows - 1);
    const int64_t first = max(int64_t{0}, (shifted - in.size + in.stride) / in.stride);
    for_each_column<kSize>(width, [&](int64_t column) {
      Vector<float, kSize> sums = zero_vector<float, kSize>();
      for (int64_t window = first; window <= last; ++window) {
        const int64_t index = shifted - window * in.stride;
        if (index >= in.size) continue;
        const Vector<T, kSize> part =
            load<kSize>(windows + ((begin + window) * in.size + index) * width + column);
        for (int i = 0; i < kSize; ++i) sums.values[i] += part[i];
      }
      Vector<T, kSize> result;
      for (int i = 0; i < kSize; ++i) result.set(i, sums[i]);
      store(frames + row * width + column, result);
    });
  });
}

template <class Body>
void with_choices(const FrameWindowArrays& in, Body body) {
  with_cuda_type(in.frames.type, [&](auto zero) {
    const bool fits = fits_vectors(in.frames.width, {in.frames.data, in.windows.data});
    with_vector_size(fits, [&](auto size) { body(zero, size); });
  });
}

}  // namespace

void frame_windows_forward_cuda(const FrameWindowArrays& in, void* stream) {
  with_choices(in, [&](auto zero, auto size) {
    const RowGrid grid = row_grid(in.windows.rows, (in.frames.width + size - 1) / size);
    forward_kernel<decltype(zero), size>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("frame windows forward");
}

void frame_windows_backward_cuda(const FrameWindowArrays& in, void* stream) {
  with_choices(in, [&](auto zero, auto size) {
    const RowGrid grid = row_grid(in.frames.rows, (in.frames.width + size - 1) / size);
    backward_kernel<decltype(zero), size>
        <<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("frame windows backward");
}

}  // namespace sotto::kernels::detail
