#include "sotto/data/audio/audio.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "sotto/core/error.h"
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

// Root of the mean square of what is left of `ours` without `truth`, over that of `truth`.
double noise_of(const std::vector<float>& ours, const std::vector<float>& truth) {
  double noise = 0.0, signal = 0.0;
  const size_t edge = 200;  // filters and lossy coders are off at the ends
  for (size_t i = edge; i + edge < std::min(ours.size(), truth.size()); ++i) {
    noise += std::pow(ours[i] - truth[i], 2.0);
    signal += std::pow(truth[i], 2.0);
  }
  return std::sqrt(noise / signal);
}

TEST(ReadAudio, ReadsEveryFormat) {
  const TempFolder folder;
  const Sound sound = tone(1.25);
  struct Format {
    const char* name;
    double noise;
  };
  for (const Format& format :
       {Format{"a.wav", 1e-4}, Format{"a.float.wav", 0.0}, Format{"a.flac", 1e-4},
        Format{"a.ogg", 0.05}, Format{"a.mp3", 0.05}}) {
    const std::filesystem::path path = folder.path() / format.name;
    if (!can_write(path)) {
      GTEST_LOG_(INFO) << "libsndfile writes no " << format.name << ": not tested";
      continue;
    }
    write_sound(path, sound);
    const std::vector<float> samples = read_audio({.path = path, .duration_s = 1.25}, 16'000);
    EXPECT_NEAR(static_cast<double>(samples.size()), 20'000.0, 1.0) << format.name;
    EXPECT_LE(noise_of(samples, sound.samples), format.noise) << format.name;
  }
}

// Manifests round durations. Plans use the longest file that is accepted for a duration.
TEST(ReadAudio, ReturnsNoMoreThanPlannedForARoundedDuration) {
  const TempFolder folder;
  for (const int rate : {8'000, 16'000, 22'050, 44'100}) {
    for (const double duration_s : {0.2, 1.0, 2.345678}) {
      const double longest_s = duration_s + duration_tolerance_s(duration_s);
      write_sound(folder.path() / "a.wav",
                  tone(std::floor(longest_s * rate) / rate, /*channels=*/1, rate));
      {
        ManifestWriter writer(folder.path() / "m.jsonl");
        writer.add({.file = "a.wav", .duration_s = duration_s, .text = "a"});
        writer.finish();
      }
      const Dataset dataset(Manifest::read(folder.path() / "m.jsonl"),
                            Tokenizer(Vocabulary::from_texts({"a"}), {}), {});
      const auto example = std::get<Example>(dataset.load(0, 0));
      EXPECT_GT(example.rows, static_cast<int64_t>(duration_s * 16'000.0));
      EXPECT_LE(example.rows, dataset.size_of(0).rows) << rate << " Hz, " << duration_s << " s";
      EXPECT_EQ(dataset.lengths().front(), static_cast<float>(duration_s));
    }
  }
}

TEST(ReadAudio, AveragesChannels) {
  const TempFolder folder;
  Sound sound{.samples = {}, .channels = 3, .sample_rate = 16'000};
  for (int i = 0; i < 1'600; ++i)
    sound.samples.insert(sound.samples.end(), {0.75f, 0.0f, static_cast<float>(i) / 1'600});
  write_sound(folder.path() / "a.float.wav", sound);
  const std::vector<float> samples =
      read_audio({.path = folder.path() / "a.float.wav", .duration_s = 0.1}, 16'000);
  ASSERT_EQ(samples.size(), 1'600u);
  EXPECT_FLOAT_EQ(samples[0], 0.25f);
  EXPECT_FLOAT_EQ(samples[800], (0.75f + 0.5f) / 3.0f);
}

TEST(ReadAudio, Resamples) {
  const TempFolder folder;
  const std::vector<float> truth = tone(1.0).samples;
  for (const int rate : {8'000, 16'000, 22'050, 44'100, 48'000}) {
    const std::filesystem::path path = folder.path() / (std::to_string(rate) + ".flac");
    write_sound(path, tone(1.0, 2, rate));
    const std::vector<float> samples = read_audio({.path = path, .duration_s = 1.0}, 16'000);
    EXPECT_NEAR(static_cast<double>(samples.size()), 16'000.0, 1.0) << rate;
    EXPECT_LE(noise_of(samples, truth), 2e-4) << rate;
  }
}

TEST(ReadAudio, ReadsASegment) {
  const TempFolder folder;
  Sound ramp;
  for (int i = 0; i < 32'000; ++i) ramp.samples.push_back(static_cast<float>(i) / 32'768);
  for (const char* name : {"a.wav", "a.flac"}) {
    const std::filesystem::path path = folder.path() / name;
    write_sound(path, ramp);
    const auto segment = [&](double offset_s, double duration_s) {
      return read_audio({.path = path, .offset_s = offset_s, .duration_s = duration_s}, 16'000);
    };
    const std::vector<float> middle = segment(0.5, 0.25);
    ASSERT_EQ(middle.size(), 4'000u);
    EXPECT_NEAR(middle[0], 8'000.0 / 32'768, 1e-4);
    // From the start of a longer file; and to its end, which rounding may put before the segment's.
    EXPECT_EQ(segment(0.0, 0.25).size(), 4'000u);
    EXPECT_EQ(segment(1.0, 1.001).size(), 16'000u);
  }
}

TEST(ReadAudio, ReadsOnSeveralThreads) {
  const TempFolder folder;
  std::vector<std::filesystem::path> paths;
  for (const char* name : {"a.wav", "a.flac", "a.ogg", "a.mp3"}) {
    const std::filesystem::path path = folder.path() / name;
    if (!can_write(path)) continue;
    write_sound(path, tone(0.5, 1, 22'050));
    paths.push_back(path);
  }
  std::vector<size_t> num_samples(4);
  std::vector<std::thread> threads;
  for (size_t& count : num_samples) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        for (const std::filesystem::path& path : paths)
          count += read_audio({.path = path, .duration_s = 0.5}, 16'000).size();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const size_t count : num_samples) EXPECT_EQ(count, num_samples[0]);
  EXPECT_NEAR(static_cast<double>(num_samples[0]), 40'000.0 * static_cast<double>(paths.size()),
              5.0 * static_cast<double>(paths.size()));
}

TEST(Dataset, TooFewDecodedSamplesAreTooShort) {
  const TempFolder folder;
  write_sound(folder.path() / "a.wav", tone(0.01));
  const Manifest manifest = Manifest::read(
      folder.write("m.jsonl", R"({"audio_filepath": "a.wav", "duration": 0.04, "text": "a"})"));
  const Tokenizer tokenizer(Vocabulary::from_texts({"a"}), {});
  const Dataset lenient(manifest, tokenizer, {.min_rows = 201});
  EXPECT_PRED2(contains, std::get<SkippedUtterance>(lenient.load(0, 0)).reason,
               "line 1 (a.wav): 160 samples. Expected at least 201, for the model");
  const Dataset strict(manifest, tokenizer, {.min_rows = 201, .too_short = Policy::kError});
  EXPECT_PRED2(contains, message_of<DataError>([&] { strict.load(0, 0); }), "160 samples");
  const Dataset enough(manifest, tokenizer, {.min_rows = 160});
  EXPECT_EQ(std::get<Example>(enough.load(0, 0)).rows, 160);
}

TEST(Loader, LoadsTheDigits) {
  const char* data = std::getenv("SOTTO_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "SOTTO_TEST_DATA names no folder with fsdd";
  Manifest manifest = Manifest::read(std::filesystem::path(data) / "fsdd/dev.jsonl");
  const Tokenizer tokenizer = Tokenizer::of_characters(manifest, {});
  const Dataset dataset(std::move(manifest), tokenizer, {});
  const Sampler sampler({.batch = EffectiveBatch::parse("20s")}, dataset.lengths());
  Loader loader(dataset, sampler, {.num_threads = 2});
  int64_t num_examples = 0;
  for (int64_t step = 0; step < sampler.epoch(0).num_steps(); ++step) {
    for (const Example& example : loader.next().examples) {
      const Utterance line = dataset.manifest().at(example.utterance);
      EXPECT_EQ(example.rows, std::llround(line.duration_s * 16'000));
      EXPECT_EQ(tokenizer.decode(example.labels), line.text);
      ++num_examples;
    }
  }
  EXPECT_EQ(num_examples, 300);
}

}  // namespace
}  // namespace sotto::data
