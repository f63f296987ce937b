// Reads WAV files with 16-bit PCM samples, for builds without libsndfile. Every build contains it,
// so that tests can compare it with libsndfile.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sotto/data/audio/audio.h"

namespace sotto::data {

// Reads up to to.size() bytes at offset `at`; returns the number read.
using ReadBytes = std::function<int64_t(int64_t at, std::span<char> to)>;

struct WavHeader {
  // info.frames counts the frames in the file, not those in its header.
  AudioInfo info;
  // Number of frames in the header.
  int64_t promised_frames = 0;
  // Byte offset of the first sample.
  int64_t data_at = 0;
};

// Reason why a file cannot be read.
struct WavFault {
  std::string found;
  // A WAV file in an unsupported format; otherwise it is broken or not a WAV file.
  bool is_other_kind = false;
};

// Parses the header of a file with `size` bytes.
std::variant<WavHeader, WavFault> read_wav_header(const ReadBytes& read, int64_t size);

// Reads up to `most` frames starting at `first`, with the channels averaged; bit-identical to
// libsndfile. Returns fewer at the end of the file.
std::vector<float> read_wav_samples(const ReadBytes& read, const WavHeader& header, int64_t first,
                                    int64_t most);

}  // namespace sotto::data
