// Floats that cannot overflow or underflow: non-negative, each with its own 32-bit exponent. For
// sums of products of thousands of probabilities. Internal to the CPU kernels.
#pragma once

#include <cstdint>
#include <cstring>

namespace sotto::kernels::simd {

// A register of extended floats: mantissa x 2^exponent, number by number.
struct Extended {
  static constexpr int kBytes = __BIGGEST_ALIGNMENT__ < 32 ? __BIGGEST_ALIGNMENT__ : 32;
  static constexpr int64_t kLanes = kBytes / 4;  // 4 or 8
  using Floats __attribute__((vector_size(kBytes))) = float;
  using Ints __attribute__((vector_size(kBytes))) = int32_t;

  // Smaller values become this power of two, but never 0: reachable states stay reachable.
  static constexpr int32_t kSmallest = -(1 << 29);

  Floats mantissa;
  Ints exponent;
};

// Stored registers: mantissas and exponents in arrays of the same layout.
struct ExtendedArray {
  float* mantissas;
  int32_t* exponents;

  ExtendedArray at(int64_t index) const { return {mantissas + index, exponents + index}; }
};

[[gnu::always_inline]] inline Extended load(const ExtendedArray& from) {
  Extended x;
  std::memcpy(&x.mantissa, from.mantissas, sizeof(x.mantissa));
  std::memcpy(&x.exponent, from.exponents, sizeof(x.exponent));
  return x;
}

[[gnu::always_inline]] inline Extended::Ints load_ints(const int32_t* from) {
  Extended::Ints x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}

[[gnu::always_inline]] inline void store(const ExtendedArray& to, const Extended& x) {
  std::memcpy(to.mantissas, &x.mantissa, sizeof(x.mantissa));
  std::memcpy(to.exponents, &x.exponent, sizeof(x.exponent));
}

[[gnu::always_inline]] inline Extended::Ints max(Extended::Ints a, Extended::Ints b) {
  return a > b ? a : b;
}

// 2^n for n <= 127; 0 for n < -126.
[[gnu::always_inline]] inline Extended::Floats power_of_two(Extended::Ints n) {
  return (Extended::Floats)((max(n, Extended::Ints{} - 127) + 127) << 23);
}

// Returns x where the mask is not 0, otherwise 0.
[[gnu::always_inline]] inline Extended where(Extended::Ints mask, const Extended& x) {
  return {.mantissa = mask != 0 ? x.mantissa : Extended::Floats{},
          .exponent = mask != 0 ? x.exponent : Extended::Ints{} + Extended::kSmallest};
}

// Returns a sum that is not normalised.
[[gnu::always_inline]] inline Extended add(const Extended& a, const Extended& b) {
  const Extended::Ints top = max(a.exponent, b.exponent);
  return {.mantissa = a.mantissa * power_of_two(a.exponent - top) +
                      b.mantissa * power_of_two(b.exponent - top),
          .exponent = top};
}

[[gnu::always_inline]] inline Extended add(const Extended& a, const Extended& b,
                                           const Extended& c) {
  const Extended::Ints top = max(max(a.exponent, b.exponent), c.exponent);
  return {.mantissa = a.mantissa * power_of_two(a.exponent - top) +
                      b.mantissa * power_of_two(b.exponent - top) +
                      c.mantissa * power_of_two(c.exponent - top),
          .exponent = top};
}

// Returns a product that is not normalised.
[[gnu::always_inline]] inline Extended multiply(const Extended& a, const Extended& b) {
  return {.mantissa = a.mantissa * b.mantissa, .exponent = a.exponent + b.exponent};
}

// Returns the same value with a mantissa in [1, 2). A zero has the smallest exponent, so that in a
// sum the other term's exponent is used.
[[gnu::always_inline]] inline Extended normalise(const Extended& x) {
  const auto bits = (Extended::Ints)x.mantissa;
  const Extended::Ints exponent =
      max(x.exponent + ((bits >> 23) - 127), Extended::Ints{} + Extended::kSmallest);
  const auto mantissa = (Extended::Floats)((bits & 0x7fffff) | 0x3f800000);
  return where(bits, {.mantissa = mantissa, .exponent = exponent});
}

}  // namespace sotto::kernels::simd
