// A quick hash of bytes for noticing changes; not against people who mean harm.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace sotto {

// Mixes a number into a hash.
constexpr uint64_t hash_combine(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 29);
}

// The same on every machine that we run on (all are little endian).
inline uint64_t hash_bytes(std::string_view bytes) {
  uint64_t hash = bytes.size();
  while (!bytes.empty()) {
    const size_t taken = bytes.size() < sizeof(uint64_t) ? bytes.size() : sizeof(uint64_t);
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), taken);
    hash = hash_combine(hash, word);
    bytes.remove_prefix(taken);
  }
  return hash;
}

}  // namespace sotto
