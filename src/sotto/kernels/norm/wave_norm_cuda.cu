#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_vector.cuh"
#include "sotto/kernels/norm/wave_norm_arrays.h"
#include "sotto/kernels/norm/wave_norm_channel.h"

namespace sotto::kernels::detail {

namespace {

// A block processes a slab of an utterance's windows, a thread some of the sums over them: entry i
// below `size` is that of sample i, entry size + i size + j that of the product of samples i and j.
__global__ void partial_kernel(WaveStatistics in) {
  const int64_t utterance = blockIdx.x;
  const int64_t slab = blockIdx.y;
  const float* samples = in.samples + in.pack.starts[utterance];
  const int64_t num_samples = in.pack.starts[utterance + 1] - in.pack.starts[utterance];
  const int64_t num_windows = (num_samples - in.size) / in.stride + 1;
  const int64_t first = num_windows * slab / in.num_slabs;
  const int64_t end = num_windows * (slab + 1) / in.num_slabs;
  const int64_t width = in.size * (in.size + 1);
  for (int64_t entry = threadIdx.x; entry < width; entry += blockDim.x) {
    const int64_t i = entry < in.size ? entry : entry / in.size - 1;
    const int64_t j = entry % in.size;
    double sum = 0.0;
    for (int64_t window = first; window < end; ++window) {
      const float* x = samples + window * in.stride;
      sum += static_cast<double>(x[i]) * (entry < in.size ? 1.0 : static_cast<double>(x[j]));
    }
    in.partial[(utterance * in.num_slabs + slab) * width + entry] = sum;
  }
}

__global__ void statistics_kernel(WaveStatistics in) {
  const int64_t utterance = blockIdx.x;
  const int64_t num_samples = in.pack.starts[utterance + 1] - in.pack.starts[utterance];
  const auto count = static_cast<double>((num_samples - in.size) / in.stride + 1);
  const int64_t width = in.size * (in.size + 1);
  double* statistics = in.statistics + utterance * width;
  const auto mean_of = [&](int64_t entry) {
    double sum = 0.0;
    for (int64_t slab = 0; slab < in.num_slabs; ++slab)
      sum += in.partial[(utterance * in.num_slabs + slab) * width + entry];
    return sum / count;
  };
  for (int64_t entry = threadIdx.x; entry < width; entry += blockDim.x) {
    const int64_t i = entry / in.size - 1;
    const int64_t j = entry % in.size;
    statistics[entry] = entry < in.size ? mean_of(entry) : mean_of(entry) - mean_of(i) * mean_of(j);
  }
}

template <class T>
__global__ void fold_kernel(WaveFold in) {
  const int64_t outputs = in.weight.rows;
  const int64_t size = in.weight.width;
  const T* weight = static_cast<const T*>(in.weight.data);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= in.num_utterances * outputs) return;
  const int64_t o = row % outputs;
  const double* statistics = in.statistics + row / outputs * size * (size + 1);
  fold_channel(weight + o * size, in.gamma[o], in.beta[o],
               wave_channel(weight + o * size, statistics, size, in.epsilon), size,
               in.folded_weight + row * size, in.folded_bias + row);
}

template <class T>
__global__ void backward_kernel(WaveFold in) {
  const int64_t outputs = in.weight.rows;
  const int64_t size = in.weight.width;
  const T* weight = static_cast<const T*>(in.weight.data);
  const int64_t o = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (o >= outputs) return;
  for (int64_t u = 0; u < in.num_utterances; ++u) {
    const double* statistics = in.statistics + u * size * (size + 1);
    const int64_t row = u * outputs + o;
    add_channel_gradients(weight + o * size, in.gamma[o], statistics,
                          wave_channel(weight + o * size, statistics, size, in.epsilon), size,
                          in.folded_weight + row * size, in.folded_bias[row],
                          in.grad_weight + o * size, in.grad_gamma + o, in.grad_beta + o);
  }
}

constexpr unsigned kThreads = 128;

unsigned blocks_for(int64_t num_threads) {
  return static_cast<unsigned>((num_threads + kThreads - 1) / kThreads);
}

}  // namespace

void wave_statistics_cuda(const WaveStatistics& in, void* stream) {
  auto* on_stream = static_cast<cudaStream_t>(stream);
  const auto utterances = static_cast<unsigned>(in.pack.num_utterances);
  const dim3 blocks(utterances, static_cast<unsigned>(in.num_slabs));
  partial_kernel<<<blocks, kThreads, 0, on_stream>>>(in);
  statistics_kernel<<<utterances, kThreads, 0, on_stream>>>(in);
  check_launch("wave statistics");
}

void wave_fold_cuda(const WaveFold& in, void* stream) {
  with_cuda_type(in.weight.type, [&](auto zero) {
    fold_kernel<decltype(zero)><<<blocks_for(in.num_utterances * in.weight.rows), kThreads, 0,
                                  static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("wave norm fold");
}

void wave_backward_cuda(const WaveFold& in, void* stream) {
  with_cuda_type(in.weight.type, [&](auto zero) {
    backward_kernel<decltype(zero)>
        <<<blocks_for(in.weight.rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(in);
  });
  check_launch("wave norm backward");
}

}  // namespace sotto::kernels::detail
