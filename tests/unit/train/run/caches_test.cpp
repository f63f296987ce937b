#include "sotto/train/run/caches.h"

#include <gtest/gtest.h>

#include <vector>

#include "sotto/core/error.h"
#include "support/bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::train {
namespace {

using data::AudioCache;
using test::contains;

using test::kMiB;

// Large enough to be visible in the RAM of the process.
TEST(Caches, ReleaseAudioAndReportHowMuch) {
  const test::TempFolder folder;
  AudioCache audio(data::CacheKind::kMemory, 100 * kMiB, folder.path());
  const std::vector<float> samples(static_cast<size_t>(kMiB / 4), 0.5f);
  for (int64_t u = 0; u < 64; ++u) audio.add(u, samples);
  Learner learner(test::tiny_config(), test::kTinyShape, at::kCPU);
  const ReleasedCaches released = release_caches(&audio, AudioCache::Afterwards::kTakesIn, learner);
  EXPECT_EQ(released.audio_bytes, 64 * kMiB);
  EXPECT_EQ(released.host_bytes, 0);
  EXPECT_EQ(audio.used_bytes(), 0);
  EXPECT_GT(released.resident_after_bytes, 0);
  EXPECT_PRED2(contains, released.to_string(),
               "released 64.0 MiB of decoded audio; RAM of the process");
}

TEST(Caches, AreReleasedWithoutAudio) {
  Learner learner(test::tiny_config(), test::kTinyShape, at::kCPU);
  learner.staging.take(1);
  const ReleasedCaches released =
      release_caches(nullptr, AudioCache::Afterwards::kTakesIn, learner);
  EXPECT_EQ(released.host_bytes, 4 * kMiB);
  EXPECT_EQ(released.audio_bytes, 0);
  EXPECT_PRED2(contains, released.to_string(), "released 4.00 MiB of copy buffers");
}

TEST(Caches, IntervalBeyondTheRunIsAnError) {
  check_release_interval(0, 100);
  check_release_interval(100, 100);
  const std::string message =
      test::message_of<ConfigError>([] { check_release_interval(101, 100); });
  EXPECT_PRED2(contains, message, "release_caches_every: 101");
  EXPECT_PRED2(contains, message, "100 updates");
}

}  // namespace
}  // namespace sotto::train
