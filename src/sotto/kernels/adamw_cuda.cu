#include <type_traits>

#include "sotto/kernels/adamw_factors.h"
#include "sotto/kernels/cuda_launch.cuh"
#include "sotto/kernels/cuda_rows.cuh"
#include "sotto/kernels/cuda_vector.cuh"
#include "sotto/kernels/dropout_mask.h"
#include "sotto/kernels/moment_map.h"
#include "sotto/kernels/split_float.h"

namespace sotto::kernels::detail {

namespace {

constexpr int kThreads = 256;

// The values of one thread: `at` of the range and so many behind it. Those of all threads but the
// last few are whole vectors.
struct Place {
  int64_t at;
  int count;
  bool is_whole;
};

template <int kSize, class T>
__device__ Vector<T, kSize> read(const T* from, const Place& place) {
  if (place.is_whole) return load<kSize>(from + place.at);
  Vector<T, kSize> vector{};
  for (int i = 0; i < place.count; ++i) vector.values[i] = from[place.at + i];
  return vector;
}

template <int kSize, class T>
__device__ void write(T* to, const Place& place, const Vector<T, kSize>& vector) {
  if (place.is_whole) {
    store(to + place.at, vector);
  } else {
    for (int i = 0; i < place.count; ++i) to[place.at + i] = vector.values[i];
  }
}

// --- forms of weights. `noise`: 16 random bits for each.

template <int kSize>
using Noise = Vector<uint32_t, kSize>;

struct FloatWeights {
  static constexpr bool kHasNoise = false;

  float* values;

  template <int kSize>
  __device__ Vector<float, kSize> load(const Place& place) const {
    return read<kSize>(values, place);
  }
  template <int kSize>
  __device__ void store(const Place& place, const Vector<float, kSize>& weights,
                        const Noise<kSize>&) const {
    write(values, place, weights);
  }
};

// bf16 without a remainder.
struct CutWeights {
  static constexpr bool kHasNoise = true;

  uint16_t* high;

  template <int kSize>
  __device__ Vector<float, kSize> load(const Place& place) const {
    const auto highs = read<kSize>(high, place);
    Vector<float, kSize> weights;
    for (int i = 0; i < kSize; ++i)
      weights.values[i] = join_float({.high = highs.values[i], .low = 0});
    return weights;
  }
  template <int kSize>
  __device__ void store(const Place& place, const Vector<float, kSize>& weights,
                        const Noise<kSize>& noise) const {
    Vector<uint16_t, kSize> highs;
    for (int i = 0; i < kSize; ++i) highs.values[i] = cut_float(weights.values[i], noise.values[i]);
    write(high, place, highs);
  }
};

// bf16 with 8 bits of remainder.
struct ShortSplitWeights {
  static constexpr bool kHasNoise = true;

  uint16_t* high;
  uint8_t* low;

  template <int kSize>
  __device__ Vector<float, kSize> load(const Place& place) const {
    const auto highs = read<kSize>(high, place);
    const auto lows = read<kSize>(low, place);
    Vector<float, kSize> weights;
    for (int i = 0; i < kSize; ++i)
      weights.values[i] = join_short({.high = highs.values[i], .low = lows.values[i]});
    return weights;
  }
  template <int kSize>
  __device__ void store(const Place& place, const Vector<float, kSize>& weights,
                        const Noise<kSize>& noise) const {
    Vector<uint16_t, kSize> highs;
    Vector<uint8_t, kSize> lows;
    for (int i = 0; i < kSize; ++i) {
      const ShortSplitFloat split = split_short(weights.values[i], noise.values[i]);
      highs.values[i] = split.high;
      lows.values[i] = split.low;
    }
    write(high, place, highs);
    write(low, place, lows);
  }
};

// bf16 with 16 bits of remainder.
struct SplitWeights {
  static constexpr bool kHasNoise = false;

  uint16_t* high;
  int16_t* low;

  template <int kSize>
  __device__ Vector<float, kSize> load(const Place& place) const {
    const auto highs = read<kSize>(high, place);
    const auto lows = read<kSize>(low, place);
    Vector<float, kSize> weights;
    for (int i = 0; i < kSize; ++i)
      weights.values[i] = join_float({.high = highs.values[i], .low = lows.values[i]});
    return weights;
  }
  template <int kSize>
  __device__ void store(const Place& place, const Vector<float, kSize>& weights,
                        const Noise<kSize>&) const {
    Vector<uint16_t, kSize> highs;
    Vector<int16_t, kSize> lows;
    for (int i = 0; i < kSize; ++i) {
      const SplitFloat split = split_float(weights.values[i]);
      highs.values[i] = split.high;
      lows.values[i] = split.low;
    }
    write(high, place, highs);
    write(low, place, lows);
  }
};

// --- forms of moments

struct FloatMoments {
  // Nothing lies in shared memory.
  struct Tables {
    __device__ void fill() {}
  };

  float* first;
  float* second;

  template <int kSize>
  __device__ Vector<float, kSize> load_first(const Place& place, const Tables&) const {
    return read<kSize>(first, place);
  }
  template <int kSize>
  __device__ Vector<float, kSize> load_second(const Place& place, const Tables&) const {
    return read<kSize>(second, place);
  }
  template <int kSize>
  __device__ void store(const Place& place, const Vector<float, kSize>& m,
                        const Vector<float, kSize>& v, const Tables&) const {
    write(first, place, m);
    write(second, place, v);
  }
};

__device__ const MomentMap kSignedOnDevice = kSignedMoments;
__device__ const MomentMap kUnsignedOnDevice = kUnsignedMoments;

// A warp has a block: 32 threads of eight values.
struct CodedMoments {
  struct Tables {
    MomentMap of_first;
    MomentMap of_second;

    __device__ void fill() {
      for (unsigned i = threadIdx.x; i < of_first.values.size(); i += blockDim.x) {
        of_first.values[i] = kSignedOnDevice.values[i];
        of_second.values[i] = kUnsignedOnDevice.values[i];
      }
      for (unsigned i = threadIdx.x; i < of_first.cells.size(); i += blockDim.x) {
        of_first.cells[i] = kSignedOnDevice.cells[i];
        of_second.cells[i] = kUnsignedOnDevice.cells[i];
      }
    }
  };

  uint8_t* first;
  uint8_t* second;
  float* first_scales;
  float* second_scales;

  template <int kSize>
  __device__ static Vector<float, kSize> decoded(const uint8_t* codes, const float* scales,
                                                 const Place& place, const MomentMap& map) {
    static_assert(kSize * kWarp == kMomentBlock);
    const auto read_codes = read<kSize>(codes, place);
    const float scale = scales[place.at / kMomentBlock];
    Vector<float, kSize> values;
    for (int i = 0; i < kSize; ++i) values.values[i] = map.values[read_codes.values[i]] * scale;
    return values;
  }
  template <int kSize>
  __device__ Vector<float, kSize> load_first(const Place& place, const Tables& tables) const {
    return decoded<kSize>(first, first_scales, place, tables.of_first);
  }
  template <int kSize>
  __device__ Vector<float, kSize> load_second(const Place& place, const Tables& tables) const {
    return decoded<kSize>(second, second_scales, place, tables.of_second);
  }

  // The largest magnitude of the block; values behind the range do not count.
  template <int kSize>
  __device__ static float largest_of(const Place& place, const Vector<float, kSize>& values) {
    float largest = 0.0f;
    for (int i = 0; i < kSize; ++i)
      largest = fmaxf(largest, i < place.count ? fabsf(values.values[i]) : 0.0f);
    return warp_largest(largest);
  }
  template <int kSize>
  __device__ void store(const Place& place, const Vector<float, kSize>& m,
                        const Vector<float, kSize>& v, const Tables& tables) const {
    const float first_largest = largest_of(place, m);
    const float second_largest = largest_of(place, v);
    const float first_inverse = inverse_scale(first_largest);
    const float second_inverse = inverse_scale(second_largest);
    Vector<uint8_t, kSize> first_codes;
    Vector<uint8_t, kSize> second_codes;
    for (int i = 0; i < kSize; ++i) {
      first_codes.values[i] =
          signed_code(tables.of_first.cells.data(), m.values[i] * first_inverse);
      second_codes.values[i] =
          unsigned_code(tables.of_second.cells.data(), v.values[i] * second_inverse);
    }
    write(first, place, first_codes);
    write(second, place, second_codes);
    if (threadIdx.x % kWarp != 0) return;
    first_scales[place.at / kMomentBlock] = first_largest;
    second_scales[place.at / kMomentBlock] = second_largest;
  }
};

// --- the update

template <class Weights, class Gradient, class Moments>
struct Operands {
  Weights weights;
  const Gradient* gradients;
  Moments moments;
  int64_t first_value;
  int64_t size;
  bool fits_vectors;
};

// One thread of each block works out what gradients are multiplied by.
__device__ double shared_scale(const AdamWFactors& f, const double* square_sum) {
  __shared__ double scale;
  if (threadIdx.x == 0) scale = f.scale_for(sqrt(*square_sum));
  __syncthreads();
  return scale;
}

template <int kSize>
__device__ Noise<kSize> noise_for(int64_t number, const PhiloxKey& key) {
  static_assert(kSize == kDropoutBlock);
  const PhiloxCounter bits = dropout_bits(static_cast<uint64_t>(number / kDropoutBlock), 0, key);
  Noise<kSize> noise;
  for (int i = 0; i < kSize; ++i)
    noise.values[i] = i % 2 == 0 ? bits[i / 2] & 0xffffu : bits[i / 2] >> 16;
  return noise;
}

// kSize values a thread; a warp stays together, so that it can share a block of moments.
template <int kSize, class Weights, class Gradient, class Moments>
__global__ void __launch_bounds__(kThreads) adamw_kernel(Operands<Weights, Gradient, Moments> of,
                                                         AdamWFactors f, const double* square_sum) {
  __shared__ typename Moments::Tables tables;
  tables.fill();
  const double scale = shared_scale(f, square_sum);  // behind it the tables are full
  if (isnan(scale)) return;
  const auto gradient_scale = static_cast<float>(scale);
  constexpr int64_t kOfWarp = int64_t{kSize} * kWarp;
  const int64_t end = (of.size + kOfWarp - 1) / kOfWarp * kOfWarp;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * kSize;
  int64_t at = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
  for (; at < end; at += stride) {
    const int64_t left = of.size - at;
    const Place place{.at = at,
                      .count = left < 0 ? 0 : static_cast<int>(left < kSize ? left : kSize),
                      .is_whole = of.fits_vectors && left >= kSize};
    const auto gradients = read<kSize>(of.gradients, place);
    auto weights = of.weights.template load<kSize>(place);
    auto first = of.moments.template load_first<kSize>(place, tables);
    auto second = of.moments.template load_second<kSize>(place, tables);
    Noise<kSize> noise{};
    if constexpr (Weights::kHasNoise) noise = noise_for<kSize>(of.first_value + at, f.rounding);
    for (int i = 0; i < kSize; ++i) {
      const float g = gradients[i] * gradient_scale;
      f.step(g, first.values[i], second.values[i], weights.values[i],
             [](float v) { return sqrtf(v); });
    }
    of.weights.store(place, weights, noise);
    of.moments.store(place, first, second, tables);
  }
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
  // Sixteen bytes of each array where all are fp32, else eight values: at least eight bytes of
  // each.
  constexpr bool kIsWide = std::is_same_v<Weights, FloatWeights> &&
                           std::is_same_v<Gradient, float> && std::is_same_v<Moments, FloatMoments>;
  constexpr int kSize = kIsWide ? 4 : 8;
  auto* const kernel = adamw_kernel<kSize, Weights, Gradient, Moments>;
  LaunchShape shape = launch_shape(of.size / kSize + 1);
  // Tables are filled once by each block: no more of them than run at a time.
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
  body(static_cast<const __nv_bfloat16*>(range.gradients));
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
