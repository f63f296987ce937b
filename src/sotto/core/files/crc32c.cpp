#include "sotto/core/files/crc32c.h"

#include <array>

namespace sotto {

namespace {

constexpr uint32_t kReversedPolynomial = 0x82F63B78;
constexpr uint32_t kMaskDelta = 0xA282EAD8;

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(byte)) & 0xFF];
  return ~crc;
}

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

}  // namespace sotto
