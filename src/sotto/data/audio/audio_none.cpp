#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"

namespace sotto::data {

namespace {

[[noreturn]] void refuse(const char* what, const std::filesystem::path& path) {
  throw ConfigError({.attempted = fmt::format("{} {}", what, path.string()),
                     .found = "this build has no audio decoding",
                     .expected = "one with libsndfile and soxr",
                     .hint = "Install libsndfile1-dev and libsoxr-dev and build again, or use a "
                             "manifest of stored features."});
}

}  // namespace

std::vector<float> read_audio(const AudioSegment& segment, int64_t /*sample_rate*/) {
  refuse("reading", segment.path);
}

std::vector<float> read_audio(const AudioSegment& segment, int64_t /*sample_rate*/,
                              TarShards& /*shards*/) {
  refuse("reading", segment.path);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the other version works in them
std::vector<float> resample(std::vector<float> /*samples*/, double /*from*/, double /*to*/) {
  refuse("resampling", "audio");
}

AudioInfo audio_info(const std::filesystem::path& path) {
  refuse("reading", path);
}

AudioInfo audio_info(const std::filesystem::path& path, TarShards& /*shards*/) {
  refuse("reading", path);
}

void write_flac(const std::filesystem::path& path, std::span<const float> /*samples*/,
                int64_t /*sample_rate*/) {
  refuse("writing", path);
}

}  // namespace sotto::data
