#include "sotto/kernels/cuda_array.h"
#include "sotto/kernels/cuda_launch.cuh"
#include "sotto/kernels/cuda_vector.cuh"
#include "sotto/kernels/log_mel_windows.h"

namespace sotto::kernels::detail {

namespace {

struct SquareMath {
  static __device__ float value(float x) { return x * x; }
};

struct LogMath {
  static __device__ float value(float x) { return logf(x); }
};

template <class Math, int kVector>
__global__ void in_place_kernel(float* values, int64_t n) {
  for_each_vector<kVector>(n, [&](int64_t at, auto size) {
    constexpr int kSize = decltype(size)::value;
    auto x = load<kSize>(values + at);
    for (int i = 0; i < kSize; ++i) x.values[i] = Math::value(x.values[i]);
    store(values + at, x);
  });
}

template <class Math>
void launch_in_place(const CudaArray& values, void* stream) {
  // Sixteen bytes of fp32.
  constexpr int kVector = 4;
  const bool fits = fits_vectors(kVectorSize, {values.data});
  const LaunchShape shape = launch_shape(values.num_elements() / (fits ? kVector : 1) + 1);
  auto* const kernel = fits ? in_place_kernel<Math, kVector> : in_place_kernel<Math, 1>;
  kernel<<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(
      data_of<float>(values), values.num_elements());
}

// The utterance of a frame: the last that begins at it or before it.
__device__ int utterance_of(const CudaLogMelFrames& frames, int64_t frame) {
  int first = 0;
  auto end = static_cast<int>(frames.samples.num_utterances);
  while (end - first > 1) {
    const int middle = (first + end) / 2;
    if (frames.starts[middle] <= frame) {
      first = middle;
    } else {
      end = middle;
    }
  }
  return first;
}

// A block has a row: the samples under the window of one frame.
__global__ void gather_kernel(CudaLogMelFrames frames, int64_t first, float* rows, int window) {
  const int64_t frame = first + blockIdx.x;
  const int utterance = utterance_of(frames, frame);
  const int32_t begin = frames.samples.starts[utterance];
  const int64_t length = frames.samples.starts[utterance + 1] - begin;
  const float* wave = frames.wave + begin;
  const int64_t before = (frame - frames.starts[utterance]) * frames.hop - window / 2;
  float* row = rows + static_cast<int64_t>(blockIdx.x) * window;
  for (int i = static_cast<int>(threadIdx.x); i < window; i += static_cast<int>(blockDim.x))
    row[i] = wave[reflected(before + i, length)];
}

}  // namespace

void log_mel_gather_cuda(const CudaLogMelFrames& frames, int64_t first, const CudaArray& rows,
                         void* stream) {
  constexpr unsigned kThreads = 128;
  gather_kernel<<<static_cast<unsigned>(rows.rows), kThreads, 0,
                  static_cast<cudaStream_t>(stream)>>>(frames, first, data_of<float>(rows),
                                                       static_cast<int>(rows.width));
  check_launch("log_mel gather");
}

void log_mel_square_cuda(const CudaArray& spectrum, void* stream) {
  launch_in_place<SquareMath>(spectrum, stream);
  check_launch("log_mel square");
}

void log_mel_logarithm_cuda(const CudaArray& features, void* stream) {
  launch_in_place<LogMath>(features, stream);
  check_launch("log_mel logarithm");
}

}  // namespace sotto::kernels::detail
