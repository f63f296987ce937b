// Sixteen floats at a time, in the compiler's vector types: AVX2, AVX-512 and NEON from one text,
// and sums whose order does not depend on which of them it is. Internal to the CPU kernels.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <cstring>

namespace sotto::kernels::simd {

inline constexpr int64_t kLanes = 16;
using Lanes = float __attribute__((vector_size(64)));
using IntLanes = int32_t __attribute__((vector_size(64)));
using UintLanes = uint32_t __attribute__((vector_size(64)));
using ShortLanes = uint16_t __attribute__((vector_size(32)));

// Says "all sixteen" where a count of 1 to 16 could stand, so that the tail's code is not in the
// loop.
struct Full {};

// Calls body(i, Full{}) for each whole block of an array of n and body(i, rest) for what is left.
template <class Body>
inline void for_each_block(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Full{});
  if (i < n) body(i, n - i);
}

inline Lanes broadcast(float value) {
  return Lanes{} + value;
}

template <class To, class From>
inline To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline Lanes load(const float* from, Full) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

inline Lanes load(const c10::BFloat16* from, Full) {
  ShortLanes halves;
  std::memcpy(&halves, from, sizeof(halves));
  return bits_as<Lanes>(__builtin_convertvector(halves, UintLanes) << 16);
}

inline Lanes load(const c10::Half* from, Full) {
  Lanes lanes;
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = static_cast<float>(from[i]);
  return lanes;
}

inline void store(float* to, const Lanes& lanes, Full) {
  std::memcpy(to, &lanes, sizeof(lanes));
}

inline void store(c10::BFloat16* to, const Lanes& lanes, Full) {
  // Round half to even; a NaN keeps a mantissa bit, or rounding could make it infinite.
  const auto bits = bits_as<UintLanes>(lanes);
  const UintLanes rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const auto is_nan = bits_as<UintLanes>(lanes != lanes);
  const UintLanes result = (rounded & ~is_nan) | (0x7fc0u & is_nan);
  const auto halves = __builtin_convertvector(result, ShortLanes);
  std::memcpy(to, &halves, sizeof(halves));
}

inline void store(c10::Half* to, const Lanes& lanes, Full) {
  for (int64_t i = 0; i < kLanes; ++i) to[i] = c10::Half(lanes[i]);
}

// The first `count` of an array, zeros behind them.
template <class T>
inline Lanes load(const T* from, int64_t count) {
  T padded[kLanes] = {};
  std::memcpy(padded, from, static_cast<size_t>(count) * sizeof(T));
  return load(padded, Full{});
}

template <class T>
inline void store(T* to, const Lanes& lanes, int64_t count) {
  T padded[kLanes];
  store(padded, lanes, Full{});
  std::memcpy(to, padded, static_cast<size_t>(count) * sizeof(T));
}

// Lanes with zeros from `count` on.
inline Lanes masked(const Lanes& lanes, Full) {
  return lanes;
}

inline Lanes masked(const Lanes& lanes, int64_t count) {
  Lanes result = lanes;
  for (int64_t i = count; i < kLanes; ++i) result[i] = 0.0f;
  return result;
}

inline float sum(const Lanes& lanes) {
  float parts[kLanes];
  std::memcpy(parts, &lanes, sizeof(parts));
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) parts[i] += parts[i + width];
  }
  return parts[0];
}

inline Lanes max(const Lanes& a, const Lanes& b) {
  return a > b ? a : b;
}

inline float max(const Lanes& lanes) {
  float largest = lanes[0];
  for (int64_t i = 1; i < kLanes; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
  return largest;
}

}  // namespace sotto::kernels::simd
