// Reads audio files: libsndfile decodes WAV, FLAC, OGG and MP3, soxr changes the sample rate. A
// build without these libraries (sound_file_none.cpp, resample_none.cpp) reads 16-bit WAV and FLAC
// at the requested sample rate; for everything else it throws a ConfigError that names the missing
// packages. A path may name a file in a tar archive (audio_path.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sotto::data {

class TarShards;

// Location and duration of an utterance's audio, as listed in a manifest.
struct AudioSegment {
  std::filesystem::path path;
  // Start of the segment; std::nullopt: the whole file.
  std::optional<double> offset_s = {};
  // 0: unknown; read to the end of the file.
  double duration_s = 0.0;
  // Memory limit for decoding and resampling; 0: no limit. The header of a small file may claim
  // days of audio.
  int64_t max_bytes = 0;
};

// Range of plausible sample rates: a header with a rate outside it is broken.
inline constexpr int64_t kLowestSampleRate = 1'000;
inline constexpr int64_t kHighestSampleRate = 1'000'000;

// Properties of an audio file, from its header.
struct AudioInfo {
  int64_t sample_rate = 0;
  int64_t channels = 0;
  // Samples per channel; may be 0.
  int64_t frames = 0;

  double seconds() const { return static_cast<double>(frames) / static_cast<double>(sample_rate); }
};

// Allowed difference between decoded audio and the manifest's duration: encoders pad, manifests
// round.
constexpr double duration_tolerance_s(double duration_s) {
  return 0.02 * duration_s + 0.05;
}

// Returns the samples at `sample_rate`, with the channels averaged. A segment ends after the
// manifest's duration or at the end of the file, whichever is first. Throws DataError if the file
// is missing, empty, truncated or not audio; if a sample is NaN or infinite; if a segment starts
// after the end of the file; if the audio is shorter than the manifest says, or a whole file
// longer, by more than duration_tolerance_s(); or if it would need more than `max_bytes`. Throws
// ConfigError for a format or rate that this build cannot read. Archives are looked up in `shards`;
// the overload without it opens the archive for this call only. Thread-safe.
std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate, TarShards& shards);
std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate);

// Throws ConfigError if this build cannot convert between the two rates; `attempted` starts the
// message.
void require_resampling(const std::string& attempted, double from, double to);

// Returns the samples resampled to another rate; rates need not be integers.
std::vector<float> resample(std::vector<float> samples, double from, double to);

// Returns what the header says, without decoding. Throws DataError if the file is missing, empty or
// not audio, if its length is unknown, or if a WAV file is shorter than its header says.
// Thread-safe.
AudioInfo audio_info(const std::filesystem::path& path, TarShards& shards);
AudioInfo audio_info(const std::filesystem::path& path);

// Writes mono samples in [-1, 1] as 16-bit FLAC. Throws DataError if the file cannot be written.
void write_flac(const std::filesystem::path& path, std::span<const float> samples,
                int64_t sample_rate);

}  // namespace sotto::data
