#include "sotto/data/audio/audio_cache.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "sotto/core/error.h"
#include "sotto/core/parallel.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"

namespace sotto::data {
namespace {

using test::TempFolder;

std::vector<float> samples_of(int64_t utterance) {
  std::vector<float> samples(static_cast<size_t>(100 + utterance));
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i] = static_cast<float>(utterance) + static_cast<float>(i) / 1024.0f;
  return samples;
}

class AudioCacheTest : public ::testing::TestWithParam<CacheKind> {
 protected:
  TempFolder folder_;
};

TEST_P(AudioCacheTest, ReturnsWhatWasAdded) {
  AudioCache cache(GetParam(), 1 << 20, folder_.path());
  EXPECT_FALSE(cache.find(1).has_value());
  parallel_for(200, [&](int64_t u) { cache.add(u, samples_of(u)); }, 4);
  parallel_for(200, [&](int64_t u) { EXPECT_EQ(cache.find(u), samples_of(u)); }, 4);
  cache.add(3, samples_of(4));  // it is there already
  EXPECT_EQ(cache.find(3), samples_of(3));
}

TEST_P(AudioCacheTest, RespectsItsLimit) {
  AudioCache cache(GetParam(), 1'000, folder_.path());
  cache.add(0, samples_of(0));
  cache.add(1, samples_of(1));
  cache.add(2, samples_of(200));
  cache.add(3, samples_of(3));  // full is full
  EXPECT_TRUE(cache.find(0).has_value());
  EXPECT_TRUE(cache.find(1).has_value());
  EXPECT_FALSE(cache.find(2).has_value());
  EXPECT_FALSE(cache.find(3).has_value());
  EXPECT_LE(cache.used_bytes(), 1'000);
}

TEST_P(AudioCacheTest, CanBeFilledAgainAfterRelease) {
  AudioCache cache(GetParam(), 1'000, folder_.path());
  cache.add(0, samples_of(0));
  cache.add(1, samples_of(1));
  cache.add(2, samples_of(200));  // full
  EXPECT_EQ(cache.release(AudioCache::Afterwards::kTakesIn), 804);
  EXPECT_EQ(cache.used_bytes(), 0);
  EXPECT_FALSE(cache.find(0).has_value());
  cache.add(1, samples_of(1));
  cache.add(3, samples_of(3));
  EXPECT_EQ(cache.find(1), samples_of(1));
  EXPECT_EQ(cache.find(3), samples_of(3));
  EXPECT_EQ(cache.used_bytes(), 816);
}

TEST_P(AudioCacheTest, StaysEmptyIfToldTo) {
  AudioCache cache(GetParam(), 1'000, folder_.path());
  cache.add(0, samples_of(0));
  EXPECT_EQ(cache.release(AudioCache::Afterwards::kStaysEmpty), 400);
  cache.add(1, samples_of(1));
  EXPECT_EQ(cache.release(AudioCache::Afterwards::kTakesIn), 0);
  cache.add(1, samples_of(1));
  EXPECT_FALSE(cache.find(1).has_value()) << "for good";
  EXPECT_EQ(cache.used_bytes(), 0);
}

// Whatever threads are doing during a release, no utterance gets the samples of another.
TEST_P(AudioCacheTest, CanBeReleasedWhileInUse) {
  AudioCache cache(GetParam(), 1 << 20, folder_.path());
  parallel_for(
      4'000,
      [&](int64_t i) {
        if (i % 50 == 0) cache.release(AudioCache::Afterwards::kTakesIn);
        const int64_t utterance = i % 37;
        cache.add(utterance, samples_of(utterance));
        const std::vector<float> samples = samples_of(utterance);
        EXPECT_EQ(cache.find(utterance).value_or(samples), samples);
      },
      4);
}

INSTANTIATE_TEST_SUITE_P(Kinds, AudioCacheTest,
                         ::testing::Values(CacheKind::kMemory, CacheKind::kDisk),
                         [](const auto& test) {
                           return test.param == CacheKind::kDisk ? "disk" : "memory";
                         });

TEST(AudioCache, LeavesNoFileBehind) {
  const TempFolder folder;
  AudioCache cache(CacheKind::kDisk, 1 << 20, folder.path());
  cache.add(0, samples_of(0));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(AudioCache, FullDiskOnlyEndsCaching) {
  const TempFolder folder;
  AudioCache cache(CacheKind::kDisk, 1 << 20, folder.path());
  cache.add(0, samples_of(0));
  {
    const test::FullDisk full(500);
    cache.add(1, samples_of(1));
  }
  cache.add(2, samples_of(2));
  EXPECT_EQ(cache.find(0), samples_of(0));
  EXPECT_FALSE(cache.find(1).has_value());
  EXPECT_FALSE(cache.find(2).has_value());
}

TEST(AudioCache, RefusesInvalidFolder) {
  const TempFolder folder;
  folder.write("file", "x");
  EXPECT_THROW(AudioCache(CacheKind::kDisk, 100, folder.path() / "file/sub"), DataError);
}

}  // namespace
}  // namespace sotto::data
