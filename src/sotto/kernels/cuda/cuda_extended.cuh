// The extended floats of simd_extended.h, one per thread: non-negative, each with its own 32-bit
// exponent, so that they neither overflow nor underflow.
#pragma once

#include <cstdint>

namespace sotto::kernels {

// mantissa x 2^exponent.
struct Extended {
  // Smaller values become this power of two, but never 0: reachable states stay reachable.
  static constexpr int kSmallest = -(1 << 29);

  float mantissa = 0.0f;
  int exponent = kSmallest;
};

struct ExtendedArray {
  float* mantissas;
  int32_t* exponents;

  __device__ ExtendedArray at(int64_t index) const {
    return {mantissas + index, exponents + index};
  }
  __device__ Extended load(int i) const { return {mantissas[i], exponents[i]}; }
  __device__ void store(int i, const Extended& x) const {
    mantissas[i] = x.mantissa;
    exponents[i] = x.exponent;
  }
};

// 2^n for n <= 127; 0 for n < -126.
__device__ inline float power_of_two(int n) {
  return __int_as_float((max(n, -127) + 127) << 23);
}

// Returns e^log, not normalised.
__device__ inline Extended extended_exp(float log) {
  constexpr float kLog2e = 1.44269504088896341f;
  // ln 2 in two parts, the first of 9 bits: its products are exact up to logarithms of 22,000.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440054690583e-4f;
  constexpr float kSmallestLog = -2.9e6f;
  const float bounded = fmaxf(log, kSmallestLog);
  const float power = rintf(bounded * kLog2e);
  const float rest = (bounded - power * kLn2High) - power * kLn2Low;
  return {expf(rest), static_cast<int>(power)};
}

// Returns a sum that is not normalised.
__device__ inline Extended add(const Extended& a, const Extended& b) {
  const int top = max(a.exponent, b.exponent);
  return {a.mantissa * power_of_two(a.exponent - top) + b.mantissa * power_of_two(b.exponent - top),
          top};
}

__device__ inline Extended add(const Extended& a, const Extended& b, const Extended& c) {
  const int top = max(max(a.exponent, b.exponent), c.exponent);
  return {a.mantissa * power_of_two(a.exponent - top) +
              b.mantissa * power_of_two(b.exponent - top) +
              c.mantissa * power_of_two(c.exponent - top),
          top};
}

// Returns a product that is not normalised.
__device__ inline Extended multiply(const Extended& a, const Extended& b) {
  return {a.mantissa * b.mantissa, a.exponent + b.exponent};
}

// Returns the same value with a mantissa in [1, 2). A zero has the smallest exponent, so that in a
// sum the other term's exponent is used.
__device__ inline Extended normalise(const Extended& x) {
  const int bits = __float_as_int(x.mantissa);
  if (bits == 0) return {};
  return {__int_as_float((bits & 0x7fffff) | 0x3f800000),
          max(x.exponent + ((bits >> 23) - 127), Extended::kSmallest)};
}

}  // namespace sotto::kernels
