// The checksum of TensorFlow's record files: CRC-32C (Castagnoli's polynomial, as in RFC 3720).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

uint32_t crc32c(std::span<const std::byte> bytes);

// As those files store it: turned and shifted, so that the checksum of bytes that hold a checksum
// is not a trivial one.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace sotto
