// The formats of weights of AdamW on CUDA. They are stored from their bits, two or four at a time,
// with noise if bits are missing. Internal to that kernel.
#pragma once

#include <cstdint>

#include "sotto/core/philox.h"
#include "sotto/kernels/optimizer/adamw_parts.cuh"
#include "sotto/kernels/simd/split_float.h"

namespace sotto::kernels::detail {

// 16 random bits for each value, two values per word.
template <int kSize>
struct Noise {
  PhiloxCounter words;

  __device__ uint32_t half(int i) const {
    return permuted(words[i / 2], i % 2 == 0 ? 0x4410 : 0x4432);
  }
  // Adds half(i) to the bits, with shift and sum in one operation.
  __device__ uint32_t half_added(int i, uint32_t bits) const {
    if (i % 2 == 0) return bits + half(i);
    uint32_t sum;
    asm("mad.hi.u32 %0, %1, 0x10000, %2;" : "=r"(sum) : "r"(words[i / 2]), "r"(bits));
    return sum;
  }
  __device__ uint32_t byte(int i) const {
    return permuted(words[i / 2], i % 2 == 0 ? 0x4440 : 0x4442);
  }
};

// Returns whether noise and rounding are certain to leave all of them finite. Otherwise they are
// stored one by one.
template <int kSize>
__device__ bool are_ordinary(const Vector<float, kSize>& weights) {
  // By a sum of squares: the units that multiply are less loaded than those that compare.
  float even = 0.0f, odd = 0.0f;
  for (int i = 0; i < kSize; i += 2) {
    even = __fmaf_rn(weights.values[i], weights.values[i], even);
    odd = __fmaf_rn(weights.values[i + 1], weights.values[i + 1], odd);
  }
  return even + odd < 0x1p120f;
}

struct FloatWeights {
  static constexpr bool kHasNoise = false;

  float* values;

  template <int kSize, class Part>
  __device__ Vector<float, kSize> load(Part part) const {
    return read<kSize>(values, part);
  }
  template <int kSize, class Part>
  __device__ void store(Part part, const Vector<float, kSize>& weights, const Noise<kSize>&) const {
    write(values, part, weights);
  }
};

// bf16 without a remainder.
struct CutWeights {
  static constexpr bool kHasNoise = true;

  uint16_t* high;

  template <int kSize, class Part>
  __device__ Vector<float, kSize> load(Part part) const {
    return read_floats<kSize>(high, part);
  }
  template <int kSize, class Part>
  __device__ void store(Part part, const Vector<float, kSize>& weights,
                        const Noise<kSize>& noise) const {
    Words<uint16_t, kSize> highs;
    if (are_ordinary(weights)) {
      uint32_t bits[kSize];
      for (int i = 0; i < kSize; ++i)
        bits[i] = noise.half_added(i, __float_as_uint(weights.values[i]));
      for (int i = 0; i < kSize; i += 2)
        highs.in.values[i / 2] = upper_halves(bits[i], bits[i + 1]);
    } else {
      for (int i = 0; i < kSize; ++i) highs.put(i, cut_float(weights.values[i], noise.half(i)));
    }
    write(high, part, highs);
  }
};

// bf16 with 8 bits of remainder.
struct ShortSplitWeights {
  static constexpr bool kHasNoise = true;

  uint16_t* high;
  uint8_t* low;

  template <int kSize, class Part>
  __device__ Vector<float, kSize> load(Part part) const {
    const auto highs = read_words<kSize>(high, part);
    const auto lows = read_words<kSize>(low, part);
    Vector<float, kSize> weights;
    for (int i = 0; i < kSize; ++i) {
      // Moves the remainder to the second byte, with its sign above it.
      const uint32_t added = permuted(lows.word_of(i), 0x8804u + 0x1110u * (i % 4));
      weights.values[i] = __uint_as_float(upper_half(highs, i) + added);
    }
    return weights;
  }
  template <int kSize, class Part>
  __device__ void store(Part part, const Vector<float, kSize>& weights,
                        const Noise<kSize>& noise) const {
    Words<uint16_t, kSize> highs;
    Words<uint8_t, kSize> lows;
    if (are_ordinary(weights)) {
      // Includes the addend that rounds the upper half; in the lower half it flips the first bit.
      uint32_t bits[kSize];
      for (int i = 0; i < kSize; ++i)
        bits[i] = __float_as_uint(weights.values[i]) + noise.byte(i) + 0x8000u;
      for (int i = 0; i < kSize; i += 2)
        highs.in.values[i / 2] = upper_halves(bits[i], bits[i + 1]);
      for (int i = 0; i < kSize; i += 4)
        lows.in.values[i / 4] = bytes_of<1>(bits + i) ^ 0x80808080u;
    } else {
      for (int i = 0; i < kSize; ++i) {
        const ShortSplitFloat split = split_short(weights.values[i], noise.byte(i));
        highs.put(i, split.high);
        lows.put(i, split.low);
      }
    }
    write(high, part, highs);
    write(low, part, lows);
  }
};

// bf16 with 16 bits of remainder.
struct SplitWeights {
  static constexpr bool kHasNoise = false;

  uint16_t* high;
  int16_t* low;

  template <int kSize, class Part>
  __device__ Vector<float, kSize> load(Part part) const {
    const auto highs = read_words<kSize>(high, part);
    const auto lows = read_words<kSize>(low, part);
    Vector<float, kSize> weights;
    for (int i = 0; i < kSize; ++i) {
      const uint32_t added = permuted(lows.word_of(i), i % 2 == 0 ? 0x9910 : 0xbb32);
      weights.values[i] = __uint_as_float(upper_half(highs, i) + added);
    }
    return weights;
  }
  template <int kSize, class Part>
  __device__ void store(Part part, const Vector<float, kSize>& weights, const Noise<kSize>&) const {
    Words<uint16_t, kSize> highs;
    Words<int16_t, kSize> lows;
    if (are_ordinary(weights)) {
      for (int i = 0; i < kSize; i += 2) {
        const uint32_t a = __float_as_uint(weights.values[i]);
        const uint32_t b = __float_as_uint(weights.values[i + 1]);
        highs.in.values[i / 2] = upper_halves(a + 0x8000u, b + 0x8000u);
        lows.in.values[i / 2] = lower_halves(a, b);
      }
    } else {
      for (int i = 0; i < kSize; ++i) {
        const SplitFloat split = split_float(weights.values[i]);
        highs.put(i, split.high);
        lows.put(i, split.low);
      }
    }
    write(high, part, highs);
    write(low, part, lows);
  }
};

}  // namespace sotto::kernels::detail
