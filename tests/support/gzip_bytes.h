// Gzip files for tests.
#pragma once

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace sotto::test {

inline std::string gzip_of(const std::string& content) {
  constexpr int kGzipWindow = 15 + 16;
  constexpr int kMemory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib does not start");
  std::string packed(deflateBound(&stream, content.size()) + 64, '\0');
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib's pointer is not const
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("zlib does not end");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace sotto::test
