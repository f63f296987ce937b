// The bytes of a .npy file, for tests.
#pragma once

#include <cstdint>
#include <string>

namespace sotto::test {

// A file of a header in Python's notation and values; the header as numpy.save pads it.
inline std::string npy_bytes(std::string header, const std::string& values, uint64_t version = 1) {
  const size_t length_bytes = version == 1 ? 2 : 4;
  while ((8 + length_bytes + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += {static_cast<char>(version), '\0'};
  for (size_t i = 0; i < length_bytes; ++i)
    bytes += static_cast<char>(header.size() >> 8 * i & 0xff);
  return bytes + header + values;
}

}  // namespace sotto::test
