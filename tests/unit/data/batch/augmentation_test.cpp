#include "sotto/data/batch/augmentation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/batch/dataset.h"
#include "sotto/data/batch/loader.h"
#include "sotto/data/manifest/manifest_writer.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "unit/data/audio/sound_file.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

double power_of(const std::vector<float>& samples) {
  double sum = 0.0;
  for (const float sample : samples) sum += double{sample} * double{sample};
  return sum / static_cast<double>(samples.size());
}

// How often a tone crosses zero, upwards, in a second.
double pitch_of(const std::vector<float>& samples) {
  int64_t crossings = 0;
  for (size_t i = 1; i < samples.size(); ++i)
    crossings += samples[i - 1] < 0.0f && samples[i] >= 0.0f ? 1 : 0;
  return static_cast<double>(crossings) * 16'000.0 / static_cast<double>(samples.size());
}

TEST(Augmentation, SpeedChangesLengthAndPitchAsConfigured) {
  const Augmentation augmentation({.speeds = {0.9, 1.0, 1.1}}, 7, 16'000);
  EXPECT_EQ(augmentation.slowest(), 0.9);
  const std::vector<float> original = tone(2.0).samples;
  std::set<double> seen;
  for (int64_t utterance = 0; utterance < 20; ++utterance) {
    std::vector<float> samples = original;
    augmentation.apply(samples, utterance, /*epoch=*/3);
    const double speed = augmentation.speed(utterance, 3);
    seen.insert(speed);
    EXPECT_NEAR(static_cast<double>(samples.size()), 32'000.0 / speed, 2.0);
    EXPECT_NEAR(pitch_of(samples), 440.0 * speed, 2.0);
    if (speed == 1.0) {
      EXPECT_EQ(samples, original);
    }
  }
  EXPECT_EQ(seen.size(), 3u);
}

TEST(Augmentation, DependsOnSeedUtteranceAndEpoch) {
  const AugmentationOptions options{.speeds = {0.9, 0.95, 1.0, 1.05, 1.1}};
  const Augmentation augmentation(options, 7, 16'000);
  int64_t num_other_epoch = 0, num_other_seed = 0;
  for (int64_t u = 0; u < 100; ++u) {
    EXPECT_EQ(Augmentation(options, 7, 16'000).speed(u, 2), augmentation.speed(u, 2));
    num_other_epoch += augmentation.speed(u, 3) != augmentation.speed(u, 2) ? 1 : 0;
    num_other_seed += Augmentation(options, 8, 16'000).speed(u, 2) != augmentation.speed(u, 2);
  }
  EXPECT_GT(num_other_epoch, 60);
  EXPECT_GT(num_other_seed, 60);
}

class Noise : public ::testing::Test {
 protected:
  Noise() {
    Sound hum = tone(0.7);
    for (size_t i = 0; i < hum.samples.size(); ++i)
      hum.samples[i] = 0.3f * std::sin(static_cast<float>(i));
    write_sound(folder_.path() / "hum.float.wav", hum);
    ManifestWriter writer(folder_.path() / "noise.jsonl");
    writer.add({.file = "hum.float.wav", .duration_s = 0.7, .text = ""});
    writer.finish();
  }
  AugmentationOptions options(double probability, double snr_db) const {
    return {.noise = folder_.path() / "noise.jsonl",
            .noise_probability = probability,
            .min_snr_db = snr_db,
            .max_snr_db = snr_db};
  }

  TempFolder folder_;
};

// Noise shorter than the speech is repeated.
TEST_F(Noise, HasTheConfiguredSignalToNoiseRatio) {
  const std::vector<float> speech = tone(2.0).samples;
  for (const double snr_db : {0.0, 10.0, 20.0}) {
    const Augmentation augmentation(options(1.0, snr_db), 1, 16'000);
    std::vector<float> noisy = speech;
    augmentation.apply(noisy, 5, 0);
    ASSERT_EQ(noisy.size(), speech.size());
    std::vector<float> noise(speech.size());
    for (size_t i = 0; i < speech.size(); ++i) noise[i] = noisy[i] - speech[i];
    EXPECT_NEAR(10.0 * std::log10(power_of(speech) / power_of(noise)), snr_db, 0.1);
  }
}

TEST_F(Noise, IsAddedToTheConfiguredShareOfUtterances) {
  const Augmentation augmentation(options(0.3, 10.0), 1, 16'000);
  int64_t num_noisy = 0;
  const std::vector<float> speech = tone(0.05).samples;
  for (int64_t u = 0; u < 300; ++u) {
    std::vector<float> samples = speech;
    augmentation.apply(samples, u, 0);
    num_noisy += samples != speech ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(num_noisy), 90.0, 25.0);
}

// With any number of threads, an utterance is the same in an epoch.
TEST_F(Noise, IsTheSameOnAnyNumberOfThreads) {
  ManifestWriter writer(folder_.path() / "m.jsonl");
  for (int i = 0; i < 12; ++i) {
    const std::string name = fmt::format("{}.wav", i);
    write_sound(folder_.path() / name, tone(0.2 + 0.05 * i));
    writer.add({.file = name, .duration_s = 0.2 + 0.05 * i, .text = "a"});
  }
  writer.finish();
  AugmentationOptions both = options(0.5, 10.0);
  both.speeds = {0.9, 1.1};
  const AudioTreatment treatment{.augmentation =
                                     std::make_shared<const Augmentation>(both, 3, 16'000)};
  const Dataset dataset(Manifest::read(folder_.path() / "m.jsonl"),
                        Tokenizer(Vocabulary::from_texts({"a"}), {}), {}, treatment);
  const Sampler sampler({.batch = EffectiveBatch::parse("4")}, dataset.lengths());
  std::vector<std::vector<float>> truth;
  for (const int64_t threads : {1, 3}) {
    Loader loader(dataset, sampler, {.num_threads = threads});
    std::vector<std::vector<float>> all;
    for (int step = 0; step < 6; ++step) {
      for (const Example& example : loader.next().examples) {
        EXPECT_LE(example.rows, dataset.size_of(example.utterance).rows);
        all.push_back(example.values);
      }
    }
    if (truth.empty()) truth = all;
    EXPECT_EQ(all, truth);
  }
}

TEST(AugmentationOptions, RefuseSettingsWithoutEffect) {
  const auto refusal = [](const std::vector<std::string>& settings) {
    return message_of<ConfigError>([&] { read_overrides<AugmentationOptions>(settings); });
  };
  EXPECT_PRED2(contains, refusal({"noise_probability=0.2"}), "noise settings without noise");
  EXPECT_PRED2(contains, refusal({"noise=n.jsonl", "min_snr_db=30"}),
               "min_snr_db of at most max_snr_db");
  EXPECT_PRED2(contains, refusal({"speeds=[0.9, 3]"}), "speeds");
}

}  // namespace
}  // namespace sotto::data
