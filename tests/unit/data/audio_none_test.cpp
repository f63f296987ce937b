#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/audio.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

TEST(ReadAudio, NamesThePackagesWhereTheBuildHasNoAudio) {
  EXPECT_EQ(test::message_of<ConfigError>(
                [] { read_audio({.path = "a.wav", .duration_s = 1.0}, 16'000); }),
            "reading a.wav: this build has no audio decoding. Expected one with libsndfile and "
            "soxr. Install libsndfile1-dev and libsoxr-dev and build again, or use a manifest of "
            "stored features.");
  EXPECT_PRED2(test::contains, test::message_of<ConfigError>([] { audio_info("a.wav"); }),
               "Install libsndfile1-dev and libsoxr-dev");
}

}  // namespace
}  // namespace sotto::data
