#include "sotto/data/import/corpus_profile.h"

#include <gtest/gtest.h>

#include "sotto/data/manifest/manifest_writer.h"
#include "support/temp_folder.h"
#include "unit/data/audio/sound_file.h"

namespace sotto::data {
namespace {

using test::TempFolder;

// Matches numpy.percentile for the same numbers.
TEST(Distribution, InterpolatesBetweenValues) {
  const Distribution of = Distribution::of(std::vector<float>{4.0f, 1.0f, 3.0f, 2.0f});
  EXPECT_EQ(of.mean, 2.5);
  EXPECT_EQ(of.min, 1.0);
  EXPECT_EQ(of.max, 4.0);
  EXPECT_NEAR(of.percentiles[0], 1.03, 1e-12);
  EXPECT_NEAR(of.percentiles[2], 1.75, 1e-12);
  EXPECT_NEAR(of.percentiles[3], 2.5, 1e-12);
  EXPECT_NEAR(of.percentiles[6], 3.97, 1e-12);
  EXPECT_EQ(Distribution::of_counts(std::array{7U}).percentiles[3], 7.0);
  const Distribution counts = Distribution::of_counts(std::array{4U, 1U, 3U, 2U});
  EXPECT_EQ(counts.mean, of.mean);
  EXPECT_EQ(counts.max, of.max);
  EXPECT_EQ(counts.percentiles, of.percentiles);
  const Distribution many = Distribution::of_counts(std::array{5U, 5U, 9U, 5U, 5U, 9U});
  EXPECT_EQ(many.percentiles, Distribution::of({5.0f, 5.0f, 9.0f, 5.0f, 5.0f, 9.0f}).percentiles);
}

TEST(Histogram, HasRoundBinsThatHoldEveryValue) {
  const Histogram of = Histogram::of(std::array{0.9f, 1.0f, 1.1f, 5.0f, 30.6f}, 16);
  EXPECT_EQ(of.width, 2.0);
  EXPECT_EQ(of.begin, 0.0);
  ASSERT_EQ(of.counts.size(), 16u);
  EXPECT_EQ(of.counts[0], 3);
  EXPECT_EQ(of.counts[2], 1);
  EXPECT_EQ(of.counts[15], 1);
  EXPECT_EQ(Histogram::of(std::array{3.0f, 3.0f}, 16).counts, (std::vector<int64_t>{2}));
}

TEST(CorpusProfile, DescribesTheCorpusFromItsIndexAndASample) {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 30; ++i) {
    const std::string name = fmt::format("{}.wav", i);
    if (i != 3) write_sound(folder.path() / name, tone(1.0 + i, /*channels=*/i % 2 + 1));
    lines += manifest_line({.file = name,
                            .duration_s = 1.0 + i,
                            .text = std::string(static_cast<size_t>(i), 'a'),
                            .speaker = fmt::format("s{}", i % 4),
                            .lang = "en"}) +
             "\n";
  }
  const Manifest manifest = Manifest::read(folder.write("m.jsonl", lines));
  const CorpusProfile all = profile_corpus(manifest, {.sample = 0});
  EXPECT_EQ(all.num_utterances, 30);
  EXPECT_EQ(all.seconds, 465.0);
  EXPECT_EQ(all.size_class(), "small");
  EXPECT_EQ(all.durations_s.max, 30.0);
  EXPECT_EQ(all.num_empty_texts, 1);
  EXPECT_EQ(all.num_sampled, 30);
  EXPECT_EQ(all.num_unreadable, 1);
  EXPECT_EQ(all.num_speakers, 4);
  EXPECT_EQ(all.languages.at("en"), 30);
  EXPECT_EQ(all.forms.at("16000 Hz, 1 channel, .wav"), 15);
  EXPECT_EQ(all.forms.at("16000 Hz, 2 channels, .wav"), 14);
  // 32,000 bytes a second and channel.
  EXPECT_NEAR(static_cast<double>(all.estimated_bytes), 465.0 * 32'000 * 1.5, 465.0 * 32'000 * 0.1);

  const CorpusProfile some = profile_corpus(manifest, {.sample = 7, .seed = 5});
  EXPECT_EQ(some.num_sampled, 7);
  EXPECT_EQ(some.seconds, 465.0);
  EXPECT_EQ(profile_corpus(manifest, {.sample = 7, .seed = 5}).forms, some.forms);
}

}  // namespace
}  // namespace sotto::data
