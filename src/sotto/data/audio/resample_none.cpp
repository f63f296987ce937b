// A build without soxr: samples keep the rate that they have.
#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"

namespace sotto::data {

namespace {

[[noreturn]] void refuse_resampling(const std::string& attempted, double from, double to) {
  throw ConfigError({.attempted = attempted,
                     .found = fmt::format("{} samples per second", from),
                     .expected = fmt::format("{}, because this build does not resample", to),
                     .hint = "Install libsndfile1-dev and libsoxr-dev and build again."});
}

}  // namespace

void require_resampling(const std::filesystem::path& path, int64_t from, int64_t to) {
  if (from == to) return;
  refuse_resampling(fmt::format("reading {}", path.string()), static_cast<double>(from),
                    static_cast<double>(to));
}

std::vector<float> resample(std::vector<float> samples, double from, double to) {
  if (from == to || samples.empty()) return samples;
  refuse_resampling("resampling audio", from, to);
}

}  // namespace sotto::data
