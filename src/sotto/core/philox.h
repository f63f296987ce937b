// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC
// 2011): four random words from a counter and a key, without state. constexpr, so that CUDA kernels
// call the same function.
#pragma once

#include <array>
#include <cstdint>

namespace sotto {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Multipliers and Weyl increments from section 3.3 and table 2 of the paper.
inline constexpr uint64_t kPhiloxMultiplier0 = 0xD2511F53;
inline constexpr uint64_t kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr int kPhiloxRounds = 10;

// Returns the key of the round that follows the round with this key.
constexpr PhiloxKey next_philox_key(PhiloxKey key) {
  constexpr uint32_t kWeyl0 = 0x9E3779B9;
  constexpr uint32_t kWeyl1 = 0xBB67AE85;
  return {key[0] + kWeyl0, key[1] + kWeyl1};
}

constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = kPhiloxMultiplier0 * counter[0];
    const uint64_t product1 = kPhiloxMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = next_philox_key(key);
  }
  return counter;
}

}  // namespace sotto
