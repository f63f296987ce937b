#include "sotto/core/error.h"
#include "sotto/data/audio.h"

namespace sotto::data {

std::vector<float> read_audio(const AudioSegment& segment, int64_t /*sample_rate*/) {
  throw ConfigError({.attempted = fmt::format("reading {}", segment.path.string()),
                     .found = "this build has no audio decoding",
                     .expected = "one with libsndfile and soxr",
                     .hint = "Install libsndfile1-dev and libsoxr-dev and build again, or use a "
                             "manifest of stored features."});
}

}  // namespace sotto::data
