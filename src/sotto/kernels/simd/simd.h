// Sixteen floats at a time, from and to arrays of any element type: AVX2, AVX-512 and NEON from the
// same source, and sums whose order does not depend on the instruction set. Internal to the CPU
// kernels.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "sotto/kernels/simd/lanes.h"

namespace sotto::kernels::simd {

// Stands for "all sixteen" in place of a count of 1 to 16, so that the code for the tail is not in
// the loop.
struct Full {};

// Calls body(i, Full{}) for each whole block of an array of n and body(i, rest) for the remainder.
// Inlined with the whole body, or its sums would be in memory.
template <class Body>
[[gnu::always_inline, gnu::flatten]] inline void for_each_block(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Full{});
  if (i < n) body(i, n - i);
}

// Prefetches the memory of a block. An address past the end is not an error.
template <class T>
[[gnu::always_inline]] inline void prefetch(const T* from) {
  __builtin_prefetch(from);
}

[[gnu::always_inline]] inline Lanes load(const float* from, Full) {
  Lanes lanes;
  for_each_register([&](int64_t r) {
    std::memcpy(&lanes.at[r], from + r * kRegisterLanes, sizeof(lanes.at[r]));
  });
  return lanes;
}

// 16-bit numbers: half a register of them widens to one register, and two registers pack into one.
using ShortHalf __attribute__((vector_size(kRegisterBytes / 2))) = uint16_t;
using ShortRegister __attribute__((vector_size(kRegisterBytes))) = uint16_t;

namespace detail {

// Moves each number to the upper half of 32 bits, with zeros below.
template <size_t... kIndices>
[[gnu::always_inline]] inline ShortRegister widened(ShortHalf from,
                                                    std::index_sequence<kIndices...>) {
  return __builtin_shufflevector(ShortHalf{}, from,
                                 (kIndices % 2 == 0 ? 0 : kRegisterLanes + kIndices / 2)...);
}

// Returns the upper halves of all 32-bit numbers of two registers.
template <size_t... kIndices>
[[gnu::always_inline]] inline ShortRegister upper_halves(ShortRegister low, ShortRegister high,
                                                         std::index_sequence<kIndices...>) {
  return __builtin_shufflevector(low, high, (2 * kIndices + 1)...);
}

// Rotates: number i becomes number i + kBy, wrapping at the end.
template <size_t kBy, class Register, size_t... kIndices>
[[gnu::always_inline]] inline Register rotated(Register from, std::index_sequence<kIndices...>) {
  return __builtin_shufflevector(from, from, ((kIndices + kBy) % kRegisterLanes)...);
}

}  // namespace detail

// Loads sixteen 16-bit numbers, each into the upper half of 32 bits.
[[gnu::always_inline]] inline UintLanes load_upper_halves(const void* from) {
  UintLanes lanes;
  for_each_register([&](int64_t r) {
    ShortHalf halves;
    std::memcpy(&halves, static_cast<const uint16_t*>(from) + r * kRegisterLanes, sizeof(halves));
    const auto indices = std::make_index_sequence<2 * kRegisterLanes>();
    lanes.at[r] = (UintLanes::Register)detail::widened(halves, indices);
  });
  return lanes;
}

[[gnu::always_inline]] inline Lanes load(const c10::BFloat16* from, Full) {
  return load_upper_halves(from).bits_as<float>();
}

[[gnu::always_inline]] inline IntLanes load_unsigned(const uint16_t* from) {
  return (load_upper_halves(from) >> 16).bits_as<int32_t>();
}

[[gnu::always_inline]] inline Lanes load(const c10::Half* from, Full) {
  float values[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) values[i] = static_cast<float>(from[i]);
  return load(values, Full{});
}

[[gnu::always_inline]] inline void store(float* to, const Lanes& lanes, Full) {
  for_each_register(
      [&](int64_t r) { std::memcpy(to + r * kRegisterLanes, &lanes.at[r], sizeof(lanes.at[r])); });
}

// Stores the upper halves of sixteen 32-bit numbers.
[[gnu::always_inline]] inline void store_upper_halves(void* to, const UintLanes& lanes) {
#pragma GCC unroll 2
  for (int64_t r = 0; r < kRegisters; r += 2) {
    const ShortRegister packed =
        detail::upper_halves((ShortRegister)lanes.at[r], (ShortRegister)lanes.at[r + 1],
                             std::make_index_sequence<2 * kRegisterLanes>());
    std::memcpy(static_cast<uint16_t*>(to) + r * kRegisterLanes, &packed, sizeof(packed));
  }
}

// Sixteen bytes, and the bytes of a register. Uses shuffles: the compiler converts vectors number
// by number.
using SixteenBytes __attribute__((vector_size(kLanes))) = uint8_t;
using ByteRegister __attribute__((vector_size(kRegisterBytes))) = uint8_t;

namespace detail {

// Returns register r of the bytes as 32-bit numbers.
template <size_t kRegister, size_t... kIndices>
[[gnu::always_inline]] inline ByteRegister widened(SixteenBytes from,
                                                   std::index_sequence<kIndices...>) {
  return __builtin_shufflevector(
      from, SixteenBytes{},
      (kIndices % 4 == 0 ? kRegister * kRegisterLanes + kIndices / 4 : size_t{kLanes})...);
}

// Returns the lowest bytes of all 32-bit numbers of two registers.
template <size_t... kIndices>
[[gnu::always_inline]] inline auto lowest_bytes(ByteRegister low, ByteRegister high,
                                                std::index_sequence<kIndices...>) {
  return __builtin_shufflevector(low, high, (4 * kIndices)...);
}

template <size_t... kRegisterNumbers>
[[gnu::always_inline]] inline void widen_all(IntLanes& lanes, SixteenBytes from,
                                             std::index_sequence<kRegisterNumbers...>) {
  const auto indices = std::make_index_sequence<kRegisterBytes>();
  ((lanes.at[kRegisterNumbers] = (IntLanes::Register)widened<kRegisterNumbers>(from, indices)),
   ...);
}

}  // namespace detail

[[gnu::always_inline]] inline IntLanes load(const uint8_t* from, Full) {
  SixteenBytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  IntLanes lanes;
  detail::widen_all(lanes, bytes, std::make_index_sequence<kRegisters>());
  return lanes;
}

// Stores the lowest byte of each.
[[gnu::always_inline]] inline void store(uint8_t* to, const IntLanes& lanes, Full) {
#pragma GCC unroll 2
  for (int64_t r = 0; r < kRegisters; r += 2) {
    const auto bytes =
        detail::lowest_bytes((ByteRegister)lanes.at[r], (ByteRegister)lanes.at[r + 1],
                             std::make_index_sequence<2 * kRegisterLanes>());
    std::memcpy(to + r * kRegisterLanes, &bytes, sizeof(bytes));
  }
}

[[gnu::always_inline]] inline void store(c10::BFloat16* to, const Lanes& lanes, Full) {
  // Round half to even; a NaN is not rounded, which could make it infinite, but has one bit set.
  const auto bits = lanes.bits_as<uint32_t>();
  const auto is_nan = (lanes != lanes).bits_as<uint32_t>();
  const UintLanes up = 0x7fffu + (bits >> 16 & 1u);
  store_upper_halves(to, (bits | (is_nan & 0x400000u)) + (up & (is_nan ^ 0xffffffffu)));
}

[[gnu::always_inline]] inline void store(c10::Half* to, const Lanes& lanes, Full) {
  float values[kLanes];
  store(values, lanes, Full{});
  // On aarch64 c10::Half uses the processor's own fp16, to which the float is rounded here.
  // NOLINTNEXTLINE(bugprone-narrowing-conversions)
  for (int64_t i = 0; i < kLanes; ++i) to[i] = c10::Half(values[i]);
}

// Loads the first `count` elements of an array, followed by zeros.
template <class T>
[[gnu::always_inline]] inline auto load(const T* from, int64_t count) {
  T padded[kLanes] = {};
  std::memcpy(padded, from, static_cast<size_t>(count) * sizeof(T));
  return load(padded, Full{});
}

template <class T, class Number>
[[gnu::always_inline]] inline void store(T* to, const LanesOf<Number>& lanes, int64_t count) {
  T padded[kLanes];
  store(padded, lanes, Full{});
  std::memcpy(to, padded, static_cast<size_t>(count) * sizeof(T));
}

[[gnu::always_inline]] inline Lanes absolute(const Lanes& lanes) {
  return (lanes.bits_as<uint32_t>() & 0x7fffffffu).bits_as<float>();
}

// Replaces the lanes from `count` on by zeros.
[[gnu::always_inline]] inline Lanes masked(const Lanes& lanes, Full) {
  return lanes;
}

[[gnu::always_inline]] inline Lanes masked(const Lanes& lanes, int64_t count) {
  float values[kLanes];
  store(values, lanes, Full{});
  return load(values, count);
}

[[gnu::always_inline]] inline Lanes max(const Lanes& a, const Lanes& b) {
  return select(a > b, a, b);
}

[[gnu::always_inline]] inline Lanes min(const Lanes& a, const Lanes& b) {
  return select(a < b, a, b);
}

namespace detail {

// Reduces all sixteen by `f`, halves with halves: 0 with 8, 1 with 9, ... then 0 with 4, ...
template <class F>
[[gnu::always_inline]] inline float fold(Lanes lanes, F f) {
#pragma GCC unroll 2
  for (int half = kRegisters / 2; half > 0; half /= 2) {
#pragma GCC unroll 2
    for (int r = 0; r < half; ++r) lanes.at[r] = f(lanes.at[r], lanes.at[r + half]);
  }
  const auto indices = std::make_index_sequence<kRegisterLanes>();
  Lanes::Register last = lanes.at[0];
  if constexpr (kRegisterLanes > 4) last = f(last, rotated<4>(last, indices));
  last = f(last, rotated<2>(last, indices));
  last = f(last, rotated<1>(last, indices));
  return last[0];
}

}  // namespace detail

[[gnu::always_inline]] inline float sum(const Lanes& lanes) {
  return detail::fold(lanes, [](auto a, auto b) { return a + b; });
}

// sums[16] += lanes, in double.
[[gnu::always_inline]] inline void add_to(double* sums, const Lanes& lanes) {
  using Half __attribute__((vector_size(kRegisterBytes / 2))) = float;
  using Wide __attribute__((vector_size(kRegisterBytes))) = double;
  float values[kLanes];
  store(values, lanes, Full{});
#pragma GCC unroll 8
  for (int64_t i = 0; i < kLanes; i += kRegisterLanes / 2) {
    Half half;
    Wide sum;
    std::memcpy(&half, values + i, sizeof(half));
    std::memcpy(&sum, sums + i, sizeof(sum));
    sum += __builtin_convertvector(half, Wide);
    std::memcpy(sums + i, &sum, sizeof(sum));
  }
}

// Sums term(i, Full{}) and term(i, rest), which is zero past the rest, over an array of n. Uses two
// alternating partial sums, so that an addition need not wait for the previous one.
template <class Term>
[[gnu::always_inline, gnu::flatten]] inline float sum_of_blocks(int64_t n, Term term) {
  Lanes even;
  Lanes odd;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    even += term(i, Full{});
    odd += term(i + kLanes, Full{});
  }
  if (i + kLanes <= n) {
    even += term(i, Full{});
    i += kLanes;
  }
  if (i < n) odd += term(i, n - i);
  return sum(even + odd);
}

[[gnu::always_inline]] inline float max(const Lanes& lanes) {
  return detail::fold(lanes, [](auto a, auto b) { return a > b ? a : b; });
}

}  // namespace sotto::kernels::simd
