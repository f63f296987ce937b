// FLAC streams in memory as samples, at about twice the speed of libsndfile. Only for streams that
// are as usual and whole: libsndfile opens every file, and reads those that this one gives up on,
// so that what is wrong with a file is found and said in one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sotto::data {

// The first `most` samples, channels averaged, as libsndfile gives them to the bit. None where
// anything is unusual: the length is unknown, a frame is cut, out of place, of another form than
// the stream, or has another checksum; more than 24 bits a sample.
std::optional<std::vector<float>> decode_flac(std::span<const std::byte> stream, int64_t most);

}  // namespace sotto::data
