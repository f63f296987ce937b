// An fp32 number in two halves of 16 bits: a bf16, which the network computes with, and what that
// leaves out, which only the optimizer needs. Together they are the number to the bit. constexpr,
// so that CUDA kernels call the same functions.
#pragma once

#include <bit>
#include <cstdint>

namespace sotto::kernels {

struct SplitFloat {
  uint16_t high = 0;  // the bits of the bf16 nearest to the number; of two the larger in magnitude
  int16_t low = 0;    // what to add to its bits in fp32
};

// All numbers come back as they were; a NaN as a NaN. Those of the last half step below infinity
// have the infinite bf16, as rounding to bf16 has it anywhere, and still come back.
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

}  // namespace sotto::kernels
