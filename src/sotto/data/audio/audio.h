// Audio files as samples: WAV, FLAC, OGG and MP3 by libsndfile, another sample rate by soxr. A
// build without these libraries (sound_file_none.cpp, resample_none.cpp) reads 16-bit WAV and FLAC
// at the rate that is asked for, and throws a ConfigError that names the packages for everything
// else. A path may lead into a tar archive (audio_path.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sotto::data {

class TarShards;

// What a manifest says of an utterance's audio.
struct AudioSegment {
  std::filesystem::path path;
  // Where it begins; none: it is the whole file.
  std::optional<double> offset_s = {};
  // 0: unknown, to the end of the file however long it is.
  double duration_s = 0.0;
  // Most memory that decoding and resampling it may take; 0: any. A small file may claim days.
  int64_t max_bytes = 0;
};

// Other rates are not those of recordings: a header that claims one is broken.
inline constexpr int64_t kLowestSampleRate = 1'000;
inline constexpr int64_t kHighestSampleRate = 1'000'000;

// What a file's header says of it.
struct AudioInfo {
  int64_t sample_rate = 0;
  int64_t channels = 0;
  // Samples of one channel; may be 0.
  int64_t frames = 0;

  double seconds() const { return static_cast<double>(frames) / static_cast<double>(sample_rate); }
};

// How far decoded audio may be from the manifest's duration: encoders pad, manifests round.
constexpr double duration_tolerance_s(double duration_s) {
  return 0.02 * duration_s + 0.05;
}

// The samples at `sample_rate`, channels averaged; whole files as long as they are, segments as
// long as the manifest says or to the end of the file. Throws DataError where the file is missing,
// no audio, empty, cut short, or holds a NaN or infinite sample; where a segment begins behind its
// end; where it is shorter than the manifest says, or a whole file longer, by more than
// duration_tolerance_s(); and where it would take more than `max_bytes`. Throws ConfigError for a
// format or a rate that this build does not read. May be called from several
// threads at once. Archives are looked up in `shards`; without it, one is opened for this call
// alone.
std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate, TarShards& shards);
std::vector<float> read_audio(const AudioSegment& segment, int64_t sample_rate);

// Throws ConfigError, of what was `attempted`, where this build cannot go from one rate to another.
void require_resampling(const std::string& attempted, double from, double to);

// The samples as if they had been taken at another rate; rates need not be whole numbers.
std::vector<float> resample(std::vector<float> samples, double from, double to);

// What the header says, without decoding. Throws DataError where the file is missing, no audio or
// empty, where its length is not known, and for a WAV file that is shorter than its header says.
// May be called from several threads at once.
AudioInfo audio_info(const std::filesystem::path& path, TarShards& shards);
AudioInfo audio_info(const std::filesystem::path& path);

// Writes mono samples in -1 .. 1 as FLAC of 16 bits. Throws DataError where it cannot.
void write_flac(const std::filesystem::path& path, std::span<const float> samples,
                int64_t sample_rate);

}  // namespace sotto::data
