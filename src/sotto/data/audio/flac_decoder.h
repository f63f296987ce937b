// Decodes FLAC streams in memory, if they use only common features of the format. In a build with
// libsndfile, libsndfile opens every file, reads segments and decodes the streams that
// decode_flac() does not; a build without it reads FLAC with this decoder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sotto::data {

// Properties of a stream, from its header.
struct FlacInfo {
  int64_t sample_rate = 0;
  int64_t channels = 0;
  int bits = 0;  // per sample
  // Samples per channel; 0: unknown.
  int64_t samples = 0;

  // Returns whether streams with this header are supported.
  bool is_usual() const { return bits >= 4 && bits <= 24 && samples > 0; }
};

inline constexpr int64_t kFlacInfoBytes = 42;

// Parses the first kFlacInfoBytes of a stream. Returns std::nullopt if they are not a header.
std::optional<FlacInfo> read_flac_info(std::span<const std::byte> beginning);

// Decodes up to `most` samples, with the channels averaged; bit-identical to libsndfile. Returns
// std::nullopt if the length is unknown, if a sample has more than 24 bits, or if a frame is
// truncated, out of order, in another format than the stream, or fails its checksum.
std::optional<std::vector<float>> decode_flac(std::span<const std::byte> stream, int64_t most);

// Decodes up to `most` samples starting at `first`; fewer if the stream ends or decode_flac() would
// fail there. Returns std::nullopt if that happens before `first`. Decodes from the start of the
// stream, but keeps only the requested samples.
std::optional<std::vector<float>> decode_flac_part(std::span<const std::byte> stream, int64_t first,
                                                   int64_t most);

}  // namespace sotto::data
