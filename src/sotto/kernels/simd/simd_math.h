// Elementary functions on sixteen floats, without branches, always inlined: a call would pass its
// sixteen floats through memory. tools/fit_vector_math.py fits the polynomials.
#pragma once

#include <limits>

#include "sotto/kernels/simd/simd.h"

namespace sotto::kernels::simd {

// Returns e^x for x <= 0 to about 2 units in the last place; 0 below -87.7. Propagates NaN.
[[gnu::always_inline]] inline Lanes exp_of_negative(const Lanes& x) {
  constexpr float kLog2e = 1.44269504088896341f;
  // ln 2 in two parts: x - n ln2_high is exact for the n that occur.
  constexpr float kLn2High = 0.693145751953125f;
  constexpr float kLn2Low = 1.42860682030941723212e-6f;
  // Adding and subtracting 1.5 x 2^23 rounds to an integer.
  constexpr float kRounder = 12582912.0f;
  // At the bound n is -127, for which the power of two below has the bits of 0.
  constexpr float kLeast = -88.0f;
  const Lanes bounded = select<float>(x < kLeast, kLeast, x);
  const Lanes n = (bounded * kLog2e + kRounder) - kRounder;
  const Lanes f = ((bounded - n * kLn2High) - n * kLn2Low) * kLog2e;
  Lanes p = 0.00015345816791523248f;
  p = p * f + 0.0013399934396147728f;
  p = p * f + 0.009618489071726799f;
  p = p * f + 0.05550328642129898f;
  p = p * f + 0.24022646248340607f;
  p = p * f + 0.6931471824645996f;
  p = p * f + 1.0f;
  // Unsigned: for values that are not finite the sum wraps.
  const UintLanes exponent = (n.to<int32_t>().bits_as<uint32_t>() + 127u) << 23;
  return p * exponent.bits_as<float>();
}

// Returns e^x for any x; infinite above 88.37.
[[gnu::always_inline]] inline Lanes exp(const Lanes& x) {
  // At this bound n is 128, for which the power of two has the bits of infinity.
  constexpr float kMost = 89.0f;
  return exp_of_negative(select<float>(x > kMost, kMost, x));
}

// Returns ln x to about 1 unit in the last place, for x > 0 that is not denormal. Propagates
// infinity and NaN.
[[gnu::always_inline]] inline Lanes log(const Lanes& x) {
  constexpr float kLn2High = 0.693145751953125f;  // its product with an exponent is exact
  constexpr float kLn2Low = 1.42860682030941723212e-6f;
  constexpr int32_t kRootOfHalf = 0x3f3504f3;  // its bits
  // x = 2^n (1 + m), with 1 + m between the roots of 1/2 and 2.
  const auto bits = x.bits_as<int32_t>();
  const IntLanes exponent = (bits - kRootOfHalf) >> 23;
  const Lanes n = exponent.to<float>();
  const Lanes m = (bits - (exponent << 23)).bits_as<float>() - 1.0f;
  Lanes p = 0.07440002262592316f;
  p = p * m - 0.11575227975845337f;
  p = p * m + 0.11529288440942764f;
  p = p * m - 0.12394315004348755f;
  p = p * m + 0.1426389217376709f;
  p = p * m - 0.16670429706573486f;
  p = p * m + 0.20000281929969788f;
  p = p * m - 0.24999937415122986f;
  p = p * m + 0.3333333134651184f;
  const Lanes square = m * m;
  const Lanes rest = square * m * p + (n * kLn2Low - 0.5f * square);
  const Lanes result = (m + rest) + n * kLn2High;
  return select(x <= std::numeric_limits<float>::max(), result, x);
}

// 1 / (1 + e^-x)
[[gnu::always_inline]] inline Lanes sigmoid(const Lanes& x) {
  return 1.0f / (1.0f + exp(-x));
}

struct NormalDistribution {
  Lanes density;     // exp(-x^2 / 2) / sqrt(2 pi)
  Lanes cumulative;  // the integral of the density up to x
};

// Computes both at once, since they share the exponential. The cumulative one is half of erfc(-x /
// sqrt 2), with erfc(z) = exp(-z^2) * polynomial(1 / (1 + 0.3 z)) for z >= 0.
[[gnu::always_inline]] inline NormalDistribution normal_distribution(const Lanes& x) {
  constexpr float kInverseSqrt2 = 0.70710678118654752f;
  constexpr float kInverseSqrt2Pi = 0.39894228040143268f;
  const UintLanes sign = x.bits_as<uint32_t>() & 0x80000000u;
  const Lanes z = (x.bits_as<uint32_t>() ^ sign).bits_as<float>() * kInverseSqrt2;
  const Lanes gaussian = exp_of_negative(-z * z);
  const Lanes t = 1.0f / (1.0f + 0.3f * z);
  Lanes p = -0.1295221596956253f;
  p = p * t + 0.4855596721172333f;
  p = p * t - 0.5122708678245544f;
  p = p * t + 0.5477119088172913f;
  p = p * t - 0.09464514255523682f;
  p = p * t + 0.2149236798286438f;
  p = p * t + 0.14833977818489075f;
  p = p * t + 0.17071513831615448f;
  p = p * t + 0.1691880077123642f;
  const Lanes tail = 0.5f * gaussian * p * t;
  return {.density = gaussian * kInverseSqrt2Pi, .cumulative = select(x < 0.0f, tail, 1.0f - tail)};
}

}  // namespace sotto::kernels::simd
