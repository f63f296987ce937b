// The rule by which counter-based dropout keeps an element, shared by its CPU and CUDA versions.
// One Philox block (128 bits) serves eight elements with 16 bits each: half the cost of one word
// per element, and far finer than any rate in use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sotto/core/philox.h"

namespace sotto::kernels {

inline constexpr int64_t kDropoutBlock = 8;

// Parameters of a mask, except for the utterance.
struct DropoutRule {
  PhiloxKey key = {};
  uint32_t threshold = 0;
  // Kept elements are multiplied by it.
  float factor = 1.0f;
};

// Returns the 128 bits of elements 8 * block .. 8 * block + 7 of an utterance (counted row by row
// from its first frame).
constexpr PhiloxCounter dropout_bits(uint64_t block, uint64_t utterance, PhiloxKey key) {
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                 static_cast<uint32_t>(utterance), static_cast<uint32_t>(utterance >> 32)},
                key);
}

// Returns the threshold: an element is dropped if its 16 bits are below it.
constexpr uint32_t dropout_threshold(double probability) {
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): not negative, and lround is not constexpr
  return static_cast<uint32_t>(probability * 65536.0 + 0.5);
}

constexpr bool dropout_keeps(const PhiloxCounter& bits, int64_t index, uint32_t threshold) {
  const uint32_t word = bits[static_cast<size_t>(index / 2)];
  return (index % 2 == 0 ? word & 0xffffu : word >> 16) >= threshold;
}

constexpr float dropout_scale(uint32_t threshold) {
  return 65536.0f / static_cast<float>(65536u - threshold);
}

}  // namespace sotto::kernels
