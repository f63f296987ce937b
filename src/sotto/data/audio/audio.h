// Decodes audio files: WAV, FLAC, OGG and MP3 with libsndfile, resampling with soxr. A build
// without these libraries has audio_none.cpp, where reading throws a ConfigError that names the
// packages. A path may point into a tar archive (audio_path.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace sotto::data {

class TarShards;

// An utterance's audio as described by a manifest.
struct AudioSegment {
  std::filesystem::path path;
  // Start of the segment; std::nullopt: the whole file.
  std::optional<double> offset_s = {};
  // 0: unknown, to the end of the file however long it is.
  double duration_s = 0.0;
  // Maximum memory for decoding and resampling; 0: unlimited. The header of a small file may claim
  // days of audio.
  int64_t max_bytes = 0;
};

// Recordings do not have rates outside of this range: a header that claims one is broken.
inline constexpr int64_t kLowestSampleRate = 1'000;
inline constexpr int64_t kHighestSampleRate = 1'000'000;

// The content of a file's header.
struct AudioInfo {
  int64_t sample_rate = 0;
  int64_t channels = 0;
  // Samples per channel; may be 0.
  int64_t frames = 0;

  double seconds() const { return static_cast<double>(frames) / static_cast<double>(sample_rate); }
};

// Maximum difference between decoded audio and the manifest's duration: encoders pad, manifests
// round.
constexpr double duration_tolerance_s(double duration_s) {
  return 0.02 * duration_s + 0.05;
}

// Returns the samples at `sample_rate`, channels averaged; whole files in full, segments with the
// manifest's duration or to the end of the file. Throws DataError where the file is missing, not
// audio, empty, truncated, or holds a NaN or infinite sample; where a segment begins after its end;
// where it is shorter than in the manifest, or a whole file longer, by more than
// duration_tolerance_s(); and where it would take more than `max_bytes`. Thread-safe. Archives are
// looked up in `shards`; without it, one is opened only for this call.
std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate, TarShards& shards);
std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate);

// Resamples to another rate; rates need not be integers.
std::vector<float> resample(std::vector<float> samples, double from, double to);

// Reads the header without decoding. Throws DataError where the file is missing, not audio or
// empty, where its length is unknown, and for a WAV file that is shorter than its header claims.
// Thread-safe.
AudioInfo audio_info(const std::filesystem::path& path, TarShards& shards);
AudioInfo audio_info(const std::filesystem::path& path);

// Writes mono samples in -1 .. 1 as 16-bit FLAC. Throws DataError where the file cannot be written.
void write_flac(const std::filesystem::path& path, std::span<const float> samples,
                int64_t sample_rate);

}  // namespace sotto::data
