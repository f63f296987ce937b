// FLAC streams in memory as samples, for streams of the usual form. Where the build has libsndfile,
// that opens every file, reads segments, and reads what decode_flac() gives up on; a build without
// it reads FLAC by this alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sotto::data {

// What a stream's header says.
struct FlacInfo {
  int64_t sample_rate = 0;
  int64_t channels = 0;
  int bits = 0;  // of a sample
  // Samples of one channel; 0: not known.
  int64_t samples = 0;

  // Whether streams with this header are decoded here.
  bool is_usual() const { return bits >= 4 && bits <= 24 && samples > 0; }
};

inline constexpr int64_t kFlacInfoBytes = 42;

// Of the first kFlacInfoBytes of a stream. None where they are no header.
std::optional<FlacInfo> read_flac_info(std::span<const std::byte> beginning);

// The first `most` samples, channels averaged, as libsndfile gives them to the bit. None where
// anything is unusual: the length is unknown, a frame is cut, out of place, of another form than
// the stream, or has another checksum; more than 24 bits a sample.
std::optional<std::vector<float>> decode_flac(std::span<const std::byte> stream, int64_t most);

// The samples from `first` on, up to `most` of them, and fewer where the stream ends or
// decode_flac() would give up. None where that is before `first`. Decodes from the stream's
// beginning on, but keeps only what is asked for.
std::optional<std::vector<float>> decode_flac_part(std::span<const std::byte> stream, int64_t first,
                                                   int64_t most);

}  // namespace sotto::data
