// A build without libsndfile: what needs no decoding works, and what does says what to install.
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/import/import.h"
#include "sotto/data/manifest/manifest.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;

TEST(ReadAudio, NamesThePackagesWhereTheBuildHasNoAudio) {
  EXPECT_EQ(
      message_of<ConfigError>([] { read_audio({.path = "a.wav", .duration_s = 1.0}, 16'000); }),
      "reading a.wav: this build has no audio decoding. Expected one with libsndfile and "
      "soxr. Install libsndfile1-dev and libsoxr-dev and build again, or use a manifest of "
      "stored features.");
  EXPECT_PRED2(contains, message_of<ConfigError>([] { audio_info("a.wav"); }),
               "Install libsndfile1-dev and libsoxr-dev");
}

TEST(Import, NeedsNoDecodingWhereDurationsAreKnown) {
  const test::TempFolder folder;
  folder.write("a.wav", "is not looked into");
  const auto out = folder.path() / "all.jsonl";
  import_corpus(folder.write("known.csv", "path,text,duration\na.wav,one,1.5\n"), {.out = out});
  EXPECT_EQ(Manifest::read(out).at(0).duration_s, 1.5);
  EXPECT_PRED2(contains, message_of<ConfigError>([&] {
                 import_corpus(folder.write("unknown.csv", "path,text\na.wav,one\n"), {.out = out});
               }),
               "Install libsndfile1-dev and libsoxr-dev");
}

}  // namespace
}  // namespace sotto::data
