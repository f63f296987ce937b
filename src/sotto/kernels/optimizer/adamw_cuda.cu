#include <algorithm>
#include <type_traits>

#include "sotto/kernels/base/dropout_mask.h"
#include "sotto/kernels/cuda/cuda_launch.cuh"
#include "sotto/kernels/cuda/cuda_rows.cuh"
#include "sotto/kernels/optimizer/adamw_factors.h"
#include "sotto/kernels/optimizer/adamw_moments.cuh"
#include "sotto/kernels/optimizer/adamw_weights.cuh"

namespace sotto::kernels::detail {

namespace {

constexpr int kThreads = 256;

template <class Weights, class Gradient, class Moments>
struct Operands {
  Weights weights;
  const Gradient* gradients;
  Moments moments;
  int64_t first_value;
  int64_t size;
  bool fits_vectors;
};

// One thread of each block computes the factor of the gradients.
__device__ double shared_scale(const AdamWFactors& f, const double* square_sum) {
  __shared__ double scale;
  if (threadIdx.x == 0) scale = f.scale_for(sqrt(*square_sum));
  __syncthreads();
  return scale;
}

template <int kSize>
__device__ Noise<kSize> noise_for(int64_t number, const PhiloxKey& key) {
  static_assert(kSize == kDropoutBlock);
  return {.words = dropout_bits(static_cast<uint64_t>(number / kDropoutBlock), 0, key)};
}

template <int kSize, class Part, class Weights, class Gradient, class Moments>
__device__ void update(Part part, const Operands<Weights, Gradient, Moments>& of,
                       const AdamWFactors& f, float gradient_scale,
                       const typename Moments::Tables& tables) {
  const auto gradients = read_floats<kSize>(of.gradients, part);
  auto weights = of.weights.template load<kSize>(part);
  auto first = of.moments.template load_first<kSize>(part, tables);
  auto second = of.moments.template load_second<kSize>(part, tables);
  Noise<kSize> noise{};
  if constexpr (Weights::kHasNoise) noise = noise_for<kSize>(of.first_value + part.at, f.rounding);
  for (int i = 0; i < kSize; ++i) {
    f.step<DeviceMath>(gradients.values[i] * gradient_scale, first.values[i], second.values[i],
                       weights.values[i]);
  }
  of.weights.store(part, weights, noise);
  of.moments.store(part, first, second, tables);
}

// kSize values per thread; a warp stays together, so that it can share a block of moments.
template <int kSize, class Weights, class Gradient, class Moments>
__global__ void __launch_bounds__(kThreads) adamw_kernel(Operands<Weights, Gradient, Moments> of,
                                                         AdamWFactors f, const double* square_sum) {
  __shared__ typename Moments::Tables tables;
  tables.fill();
  const double scale = shared_scale(f, square_sum);  // the tables are full afterwards
  if (isnan(scale)) return;
  const auto gradient_scale = static_cast<float>(scale);
  constexpr int64_t kOfWarp = int64_t{kSize} * kWarp;
  const int64_t num_whole = of.fits_vectors ? of.size / kOfWarp * kOfWarp : 0;
  const int64_t end = (of.size + kOfWarp - 1) / kOfWarp * kOfWarp;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * kSize;
  int64_t at = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
  for (; at < num_whole; at += stride)
    update<kSize>(Whole{.at = at}, of, f, gradient_scale, tables);
  for (; at < end; at += stride)
    update<kSize>(Partial{.at = at, .count = of.size - at}, of, f, gradient_scale, tables);
}

template <class Kernel>
unsigned resident_blocks(Kernel* kernel) {
  int device = 0, processors = 1, blocks = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kThreads, 0);
  return static_cast<unsigned>(std::max(1, processors * blocks));
}

template <class Weights, class Gradient, class Moments>
void launch(const Operands<Weights, Gradient, Moments>& of, const AdamWFactors& f,
            const double* square_sum, cudaStream_t stream) {
  // Sixteen bytes of each array if all are fp32, otherwise eight values: at least eight bytes of
  // each.
  constexpr bool kIsWide = std::is_same_v<Weights, FloatWeights> &&
                           std::is_same_v<Gradient, float> && std::is_same_v<Moments, FloatMoments>;
  constexpr int kSize = kIsWide ? 4 : 8;
  auto* const kernel = adamw_kernel<kSize, Weights, Gradient, Moments>;
  LaunchShape shape = launch_shape(of.size / kSize + 1);
  // Each block fills its tables once: therefore no more blocks than can run at a time.
  if constexpr (std::is_same_v<Moments, CodedMoments>)
    shape.blocks = std::min(shape.blocks, resident_blocks(kernel));
  kernel<<<shape.blocks, kThreads, 0, stream>>>(of, f, square_sum);
}

template <class Body>
void with_weights(const CudaAdamWRange& range, Body body) {
  if (range.weight_type == ElementType::kFloat)
    return body(FloatWeights{.values = static_cast<float*>(range.weights)});
  auto* const high = static_cast<uint16_t*>(range.weights);
  switch (range.remainder_bits) {
    case 0: return body(CutWeights{.high = high});
    case 8:
      return body(ShortSplitWeights{.high = high, .low = static_cast<uint8_t*>(range.remainder)});
    default: return body(SplitWeights{.high = high, .low = static_cast<int16_t*>(range.remainder)});
  }
}

template <class Body>
void with_gradients(const CudaAdamWRange& range, Body body) {
  if (range.gradient_type == ElementType::kFloat)
    return body(static_cast<const float*>(range.gradients));
  body(static_cast<const uint16_t*>(range.gradients));
}

template <class Body>
void with_moments(const CudaAdamWRange& range, Body body) {
  if (range.first_scales == nullptr)
    return body(FloatMoments{.first = static_cast<float*>(range.first_moment),
                             .second = static_cast<float*>(range.second_moment)});
  body(CodedMoments{.first = static_cast<uint8_t*>(range.first_moment),
                    .second = static_cast<uint8_t*>(range.second_moment),
                    .first_scales = range.first_scales,
                    .second_scales = range.second_scales});
}

}  // namespace

void adamw_cuda(const CudaAdamWRange& range, const AdamWFactors& factors, const double* square_sum,
                void* stream) {
  const bool fits = fits_vectors(kVectorSize, {range.weights, range.remainder, range.gradients,
                                               range.first_moment, range.second_moment});
  with_weights(range, [&](auto weights) {
    with_gradients(range, [&](auto* gradients) {
      with_moments(range, [&](auto moments) {
        using Gradient = std::remove_const_t<std::remove_pointer_t<decltype(gradients)>>;
        const Operands<decltype(weights), Gradient, decltype(moments)> operands{
            .weights = weights,
            .gradients = gradients,
            .moments = moments,
            .first_value = range.first_value,
            .size = range.size,
            .fits_vectors = fits};
        launch(operands, factors, square_sum, static_cast<cudaStream_t>(stream));
      });
    });
  });
  check_launch("adamw");
}

}  // namespace sotto::kernels::detail
