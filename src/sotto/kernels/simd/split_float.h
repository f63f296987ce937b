// An fp32 number as a bf16, which the network uses, and a remainder, which only the optimizer
// needs. With 16 bits of remainder both are exactly the number. With 8 or none, bits are missing:
// noise, as many random bits, is added to the number before they are truncated, so that the result
// is unbiased. constexpr, so that CUDA kernels call the same functions.
#pragma once

#include <bit>
#include <cstdint>

namespace sotto::kernels {

struct SplitFloat {
  uint16_t high = 0;  // the bits of the bf16 nearest to the number; for ties the larger in
                      // magnitude
  int16_t low = 0;    // the difference to its bits in fp32
};

// Splits a number. All numbers are restored exactly; a NaN as a NaN. Numbers in the last half step
// below infinity have the infinite bf16, as with any rounding to bf16, and are still restored.
constexpr SplitFloat split_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // Rounding would carry the bits of a NaN over into those of a number.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {.high = 0x7fc0, .low = 0};
  return {.high = static_cast<uint16_t>((bits + 0x8000u) >> 16), .low = static_cast<int16_t>(bits)};
}

constexpr float join_float(SplitFloat split) {
  const auto low = static_cast<uint32_t>(static_cast<int32_t>(split.low));
  return std::bit_cast<float>((static_cast<uint32_t>(split.high) << 16) + low);
}

// Returns the bits of a number after noise is added to those that will be truncated. Infinity and
// NaN get none.
constexpr uint32_t bits_with_noise(float value, uint32_t noise) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : bits + noise;
}

// A number with 8 bits of remainder.
struct ShortSplitFloat {
  uint16_t high = 0;  // as in SplitFloat
  uint8_t low = 0;    // signed: the difference to the bits in fp32, in units of 256
};

// 8-bit noise that rounds to nearest.
inline constexpr uint32_t kNoNoise8 = 0x80;

constexpr ShortSplitFloat split_short(float value, uint32_t noise) {
  const uint32_t bits = bits_with_noise(value, noise & 0xffu);
  const SplitFloat split = split_float(std::bit_cast<float>(bits));
  return {.high = split.high, .low = static_cast<uint8_t>(static_cast<uint16_t>(split.low) >> 8)};
}

constexpr float join_short(ShortSplitFloat split) {
  return join_float({.high = split.high, .low = static_cast<int16_t>(split.low << 8)});
}

// Returns the bits of the bf16 without a remainder.
constexpr uint16_t cut_float(float value, uint32_t noise) {
  const uint32_t bits = bits_with_noise(value, noise & 0xffffu);
  return (bits & 0x7fffffffu) > 0x7f800000u ? uint16_t{0x7fc0} : static_cast<uint16_t>(bits >> 16);
}

}  // namespace sotto::kernels
