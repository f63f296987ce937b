#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/cuda/cuda_vector.cuh"
#include "sotto/kernels/features/log_mel_windows.h"

namespace sotto::kernels::detail {

namespace {

struct SquareMath {
  __device__ float value(float x) const { return x * x; }
};

struct LogMath {
  LogMelLogarithm logarithm;

  __device__ float value(float x) const {
    return logarithm.scale * logf(fmaxf(x, logarithm.least));
  }
};

template <class Math, int kVector>
__global__ void in_place_kernel(float* values, int64_t n, Math math) {
  for_each_vector<kVector>(n, [&](int64_t at, auto size) {
    constexpr int kSize = decltype(size)::value;
    auto x = load<kSize>(values + at);
    for (int i = 0; i < kSize; ++i) x.values[i] = math.value(x.values[i]);
    store(values + at, x);
  });
}

template <class Math>
void launch_in_place(const CudaArray& values, const Math& math, void* stream) {
  // Sixteen bytes of fp32.
  constexpr int kVector = 4;
  const bool fits = fits_vectors(kVectorSize, {values.data});
  const LaunchShape shape = launch_shape(values.num_elements() / (fits ? kVector : 1) + 1);
  auto* const kernel = fits ? in_place_kernel<Math, kVector> : in_place_kernel<Math, 1>;
  kernel<<<shape.blocks, shape.threads, 0, static_cast<cudaStream_t>(stream)>>>(
      data_of<float>(values), values.num_elements(), math);
}

// Returns the utterance of a frame: the last one that begins at or before it.
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

// A block fills one row: the samples under the window of one frame.
__global__ void gather_kernel(CudaLogMelFrames frames, int64_t first, float* rows, int window) {
  const int64_t frame = first + blockIdx.x;
  const int utterance = utterance_of(frames, frame);
  const int32_t begin = frames.samples.starts[utterance];
  const int64_t length = frames.samples.starts[utterance + 1] - begin;
  const float* wave = frames.wave + begin;
  const int64_t before =
      (frame - frames.starts[utterance]) * frames.framing.hop - frames.framing.before;
  float* row = rows + static_cast<int64_t>(blockIdx.x) * window;
  const auto for_each = [&](auto body) {
    for (int i = static_cast<int>(threadIdx.x); i < window; i += static_cast<int>(blockDim.x))
      body(i);
  };
  if (!frames.framing.by_frame) {
    for_each([&](int i) { row[i] = seen_at(wave, length, before + i, frames.framing); });
    return;
  }
  double sum = 0.0;
  for_each([&](int i) { sum += wave[before + i]; });
  const auto mean = static_cast<float>(team_sum(sum) / window);
  for_each([&](int i) { row[i] = seen_in_frame(wave + before, i, mean, frames.framing); });
}

// A block processes one utterance.
__global__ void limit_kernel(float* features, int64_t width, const int32_t* starts) {
  const int64_t begin = starts[blockIdx.x] * width;
  const int64_t end = starts[blockIdx.x + 1] * width;
  float largest = -INFINITY;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    largest = fmaxf(largest, features[i]);
  largest = team_largest(largest);
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    features[i] = LogMelRange::limited(features[i], largest);
}

constexpr unsigned kColumnWarps = 8;

// Returns the sum over the threads of one column, which have the same x, to all of them.
__device__ double column_sum(double value) {
  __shared__ double of_warps[kColumnWarps][kWarp];
  __syncthreads();  // the values of an earlier call have been read
  of_warps[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  double sum = 0.0;
  for (unsigned warp = 0; warp < kColumnWarps; ++warp) sum += of_warps[warp][threadIdx.x];
  return sum;
}

// A block processes a warp's columns of an utterance. Sums in double, in two passes: the mean of a
// filter may be large and its variance small.
__global__ void standardise_kernel(float* features, int64_t width, const int32_t* starts) {
  const int64_t begin = starts[blockIdx.x];
  const int64_t end = starts[blockIdx.x + 1];
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kWarp + threadIdx.x;
  // Threads past the last column have no frames, but take part in the sums.
  const int64_t first = column < width ? begin + threadIdx.y : end;
  double sum = 0.0;
  for (int64_t frame = first; frame < end; frame += kColumnWarps)
    sum += features[frame * width + column];
  const double mean = column_sum(sum) / static_cast<double>(end - begin);
  double squares = 0.0;
  for (int64_t frame = first; frame < end; frame += kColumnWarps) {
    const double centred = features[frame * width + column] - mean;
    squares += centred * centred;
  }
  const double deviation = sqrt(column_sum(squares) / static_cast<double>(end - begin - 1));
  const auto factor = static_cast<float>(1.0 / (deviation + kLogMelDeviation));
  for (int64_t frame = first; frame < end; frame += kColumnWarps) {
    float* x = features + frame * width + column;
    *x = static_cast<float>(*x - mean) * factor;
  }
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
  launch_in_place(spectrum, SquareMath{}, stream);
  check_launch("log_mel square");
}

void log_mel_logarithm_cuda(const CudaArray& features, const LogMelLogarithm& logarithm,
                            void* stream) {
  launch_in_place(features, LogMath{logarithm}, stream);
  check_launch("log_mel logarithm");
}

void log_mel_limit_cuda(const CudaArray& features, const CudaLogMelFrames& frames, void* stream) {
  constexpr unsigned kThreads = 1024;
  limit_kernel<<<static_cast<unsigned>(frames.samples.num_utterances), kThreads, 0,
                 static_cast<cudaStream_t>(stream)>>>(data_of<float>(features), features.width,
                                                      frames.starts);
  check_launch("log_mel limit");
}

void log_mel_standardise_cuda(const CudaArray& features, const CudaLogMelFrames& frames,
                              void* stream) {
  const dim3 blocks(static_cast<unsigned>(frames.samples.num_utterances),
                    static_cast<unsigned>((features.width + kWarp - 1) / kWarp));
  standardise_kernel<<<blocks, dim3(kWarp, kColumnWarps), 0, static_cast<cudaStream_t>(stream)>>>(
      data_of<float>(features), features.width, frames.starts);
  check_launch("log_mel standardise");
}

}  // namespace sotto::kernels::detail
