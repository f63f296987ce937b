// CRC-32C (Castagnoli's polynomial, as in RFC 3720), the checksum of TensorFlow's record files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sotto {

uint32_t crc32c(std::span<const std::byte> bytes);

// Returns the checksum in the form stored in those files: rotated and offset, so that the checksum
// of bytes that contain a checksum is not trivial.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace sotto
