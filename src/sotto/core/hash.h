// Fast hashes for detecting changes and looking up names. Not cryptographic.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace sotto {

// Combines a number with a hash.
constexpr uint64_t hash_combine(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 29);
}

// Hashes bytes. The result is the same on every supported machine (all are little-endian).
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

// Returns the FNV-1a hash of a name.
constexpr uint64_t fnv1a(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}

}  // namespace sotto
