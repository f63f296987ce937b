#include "sotto/kernels/adamw_factors.h"
#include "sotto/kernels/cuda_launch.cuh"
#include "sotto/kernels/cuda_vector.cuh"
#include "sotto/kernels/split_float.h"

namespace sotto::kernels::detail {

namespace {

struct FloatWeights {
  // What a thread takes at once: sixteen bytes of each array.
  static constexpr int kAtOnce = 4;

  float* values;

  template <int kSize>
  __device__ Vector<float, kSize> read(int64_t at) const {
    return load<kSize>(values + at);
  }
  template <int kSize>
  __device__ void write(int64_t at, const Vector<float, kSize>& weights) const {
    store(values + at, weights);
  }
};

// In bf16 with a remainder.
struct SplitWeights {
  static constexpr int kAtOnce = 8;

  uint16_t* high;
  int16_t* low;

  template <int kSize>
  __device__ Vector<float, kSize> read(int64_t at) const {
    const auto highs = load<kSize>(high + at);
    const auto lows = load<kSize>(low + at);
    Vector<float, kSize> weights;
    for (int i = 0; i < kSize; ++i)
      weights.values[i] = join_float({.high = highs.values[i], .low = lows.values[i]});
    return weights;
  }
  template <int kSize>
  __device__ void write(int64_t at, const Vector<float, kSize>& weights) const {
    Vector<uint16_t, kSize> highs;
    Vector<int16_t, kSize> lows;
    for (int i = 0; i < kSize; ++i) {
      const SplitFloat split = split_float(weights.values[i]);
      highs.values[i] = split.high;
      lows.values[i] = split.low;
    }
    store(high + at, highs);
    store(low + at, lows);
  }
};

// One thread of each block works out what gradients are multiplied by.
__device__ double shared_scale(const AdamWFactors& f, const double* square_sum) {
  __shared__ double scale;
  if (threadIdx.x == 0) scale = f.scale_for(sqrt(*square_sum));
  __syncthreads();
  return scale;
}

template <int kVector, class Weights>
__global__ void __launch_bounds__(256)
    adamw_kernel(Weights weights, CudaAdamWRange range, AdamWFactors f, const double* square_sum) {
  const double scale = shared_scale(f, square_sum);
  if (isnan(scale)) return;
  const auto gradient_scale = static_cast<float>(scale);
  for_each_vector<kVector>(range.size, [&](int64_t at, auto size) {
    constexpr int kSize = decltype(size)::value;
    const auto gradients = load<kSize>(range.gradients + at);
    auto first = load<kSize>(range.first_moment + at);
    auto second = load<kSize>(range.second_moment + at);
    auto now = weights.template read<kSize>(at);
    for (int i = 0; i < kSize; ++i) {
      const float g = gradients.values[i] * gradient_scale;
      float& m = first.values[i];
      float& v = second.values[i];
      m = m + (g - m) * f.blend1;
      v = v * f.beta2 + g * g * f.blend2;
      const float denominator = sqrtf(v) / f.root + f.epsilon;
      now.values[i] = now.values[i] * f.keep - m / denominator * f.stride;
    }
    weights.write(at, now);
    store(range.first_moment + at, first);
    store(range.second_moment + at, second);
  });
}

template <class Weights>
void launch(const Weights& weights, const CudaAdamWRange& range, const AdamWFactors& factors,
            const double* square_sum, cudaStream_t stream) {
  const bool fits = fits_vectors(kVectorSize, {range.weights, range.remainder, range.gradients,
                                               range.first_moment, range.second_moment});
  const LaunchShape shape = launch_shape(range.size / (fits ? Weights::kAtOnce : 1) + 1);
  auto* const kernel = fits ? adamw_kernel<Weights::kAtOnce, Weights> : adamw_kernel<1, Weights>;
  kernel<<<shape.blocks, shape.threads, 0, stream>>>(weights, range, factors, square_sum);
}

}  // namespace

void adamw_cuda(const CudaAdamWRange& range, const AdamWFactors& factors, const double* square_sum,
                void* stream) {
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  if (range.remainder == nullptr) {
    launch(FloatWeights{.values = static_cast<float*>(range.weights)}, range, factors, square_sum,
           cuda_stream);
  } else {
    launch(SplitWeights{.high = static_cast<uint16_t*>(range.weights), .low = range.remainder},
           range, factors, square_sum, cuda_stream);
  }
  check_launch("adamw");
}

}  // namespace sotto::kernels::detail
