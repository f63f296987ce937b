// For builds without soxr: samples keep their rate.
#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"

namespace sotto::data {

void require_resampling(const std::string& attempted, double from, double to) {
  if (from == to) return;
  throw ConfigError({.attempted = attempted,
                     .found = fmt::format("{} samples per second", from),
                     .expected = fmt::format("{}, because this build does not resample", to),
                     .hint = "Install libsndfile1-dev and libsoxr-dev and build again."});
}

std::vector<float> resample(std::vector<float> samples, double from, double to) {
  require_resampling("resampling audio", from, to);
  return samples;
}

}  // namespace sotto::data
