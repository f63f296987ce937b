// WAV files of 16-bit PCM by code of ours: what a build without libsndfile reads. Every build has
// it, so that its samples can be compared with libsndfile's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sotto/data/audio/audio.h"

namespace sotto::data {

// Reads the bytes of a file from a place on, as many as fit or as there are; returns how many.
using ReadBytes = std::function<int64_t(int64_t at, std::span<char> to)>;

struct WavHeader {
  // Counts the frames that are in the file, of however many its header promises.
  AudioInfo info;
  int64_t promised_frames = 0;
  // Where the samples begin, in bytes.
  int64_t data_at = 0;
};

// Why a file is not read.
struct WavFault {
  std::string found;
  // A WAV file of another kind; otherwise the file is broken, or none.
  bool is_other_kind = false;
};

// `size` is that of the file in bytes.
std::variant<WavHeader, WavFault> read_wav_header(const ReadBytes& read, int64_t size);

// Up to `most` samples from frame `first` on, channels averaged, as libsndfile gives them to the
// bit. Fewer where the file ends.
std::vector<float> read_wav_samples(const ReadBytes& read, const WavHeader& header, int64_t first,
                                    int64_t most);

}  // namespace sotto::data
