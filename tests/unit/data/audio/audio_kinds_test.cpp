// Every kind of file: what its header says, what comes out of it, from its start and from the
// middle, on the disk and inside of an archive.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <thread>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/tar_shards.h"
#include "sotto/data/batch/dataset.h"
#include "sotto/data/manifest/manifest_writer.h"
#include "support/tar_bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "unit/data/audio/sound_file.h"

namespace sotto::data {
namespace {

using test::contains;
using test::content_of;
using test::message_of;
using test::TempFolder;

constexpr std::array kLossless = {"a.wav",       "a.u8.wav",     "a.24.wav", "a.32.wav",
                                  "a.float.wav", "a.double.wav", "a.flac"};
constexpr std::array kLossy = {"a.ogg", "a.opus", "a.mp3"};

// Names of all kinds that this libsndfile writes.
std::vector<std::string> kinds() {
  std::vector<std::string> names(kLossless.begin(), kLossless.end());
  for (const char* name : kLossy) {
    if (can_write(name)) {
      names.emplace_back(name);
    } else {
      GTEST_LOG_(INFO) << "libsndfile writes no " << name << ": not tested";
    }
  }
  return names;
}

// Noise, of which no two places are alike.
Sound noise(double seconds, int channels, int sample_rate) {
  Sound sound = tone(seconds, channels, sample_rate);
  const RandomStream stream({.seed = 7});
  for (size_t i = 0; i < sound.samples.size(); ++i)
    sound.samples[i] = 0.4f * (2.0f * stream.uniform(i) - 1.0f);
  return sound;
}

TEST(AudioInfo, MatchesTheHeader) {
  const TempFolder folder;
  for (const std::string& name : kinds()) {
    const bool is_opus = name == "a.opus";  // knows 48 kHz and its like alone
    const int rate = is_opus ? 48'000 : 44'100;
    write_sound(folder.path() / name, noise(1.5, 2, rate));
    const AudioInfo info = audio_info(folder.path() / name);
    EXPECT_EQ(info.sample_rate, rate) << name;
    EXPECT_EQ(info.channels, 2) << name;
    EXPECT_EQ(info.frames, rate * 3 / 2) << name;
    EXPECT_DOUBLE_EQ(info.seconds(), 1.5) << name;
  }
  write_sound(folder.path() / "empty.wav", tone(0.0));
  EXPECT_EQ(audio_info(folder.path() / "empty.wav").frames, 0);
  write_sound(folder.path() / "8.wav", tone(0.25, 8, 96'000));
  EXPECT_EQ(audio_info(folder.path() / "8.wav").channels, 8);
  EXPECT_DOUBLE_EQ(audio_info(folder.path() / "8.wav").seconds(), 0.25);
}

TEST(AudioInfo, DecodesNothing) {
  const TempFolder folder;
  write_sound(folder.path() / "a.flac", noise(2.0, 1, 16'000));
  const std::string bytes = content_of(folder.path() / "a.flac");
  // The header promises what is not there; only decoding shows it.
  const auto half = folder.write("half.flac", bytes.substr(0, bytes.size() / 2));
  EXPECT_DOUBLE_EQ(audio_info(half).seconds(), 2.0);
  EXPECT_THROW(read_audio({.path = half}, 16'000), DataError);
}

TEST(AudioInfo, RefusesNonAudio) {
  const TempFolder folder;
  const auto refusal = [&](const std::filesystem::path& path) {
    return message_of<DataError>([&] { audio_info(path); });
  };
  EXPECT_PRED2(contains, refusal(folder.path() / "no.wav"), "No such file");
  EXPECT_PRED2(contains, refusal(folder.path()), "it is a folder");
  EXPECT_PRED2(contains, refusal("/dev/null"), "it is not a regular file");
  EXPECT_PRED2(contains, refusal(folder.write("a.wav", "a text")), "Format not recognised");
  EXPECT_PRED2(contains, refusal(folder.path() / "my talk.m4a"),
               ".m4a files are not supported. Expected audio in WAV, FLAC, OGG or "
               "MP3. Convert it: ffmpeg -i '");
  EXPECT_PRED2(contains, refusal(folder.path() / "my talk.m4a"), "/my talk.flac'");
}

TEST(ReadAudio, ReadsEverySampleWidth) {
  const TempFolder folder;
  const Sound sound = noise(0.5, 1, 16'000);
  const std::array steps = {1.0 / 32'768, 1.0 / 128, 1.0 / 8'388'608, 1e-7, 0.0, 0.0, 1.0 / 32'768};
  for (size_t kind = 0; kind < kLossless.size(); ++kind) {
    const auto path = folder.path() / kLossless[kind];
    write_sound(path, sound);
    const std::vector<float> samples = read_audio({.path = path, .duration_s = 0.5}, 16'000);
    ASSERT_EQ(samples.size(), sound.samples.size()) << path;
    double worst = 0.0;
    for (size_t i = 0; i < samples.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(samples[i]) - sound.samples[i]));
    EXPECT_LE(worst, steps[kind]) << path;
    EXPECT_TRUE(worst > 0.0 || steps[kind] == 0.0) << path;
  }
}

TEST(ReadAudio, ReadsEightChannelsAt96Kilohertz) {
  const TempFolder folder;
  for (const char* name : {"a.wav", "a.flac"}) {
    write_sound(folder.path() / name, tone(1.0, 8, 96'000));
    const std::vector<float> samples =
        read_audio({.path = folder.path() / name, .duration_s = 1.0}, 16'000);
    ASSERT_NEAR(static_cast<double>(samples.size()), 16'000.0, 1.0);
    const std::vector<float> truth = tone(1.0).samples;
    for (size_t i = 200; i + 200 < truth.size(); i += 37) EXPECT_NEAR(samples[i], truth[i], 1e-3);
  }
}

// A segment has exactly the samples of its part of the whole file.
TEST(ReadAudio, SeeksToTheExactSampleInEveryFormat) {
  const TempFolder folder;
  for (const std::string& name : kinds()) {
    const int rate = name == "a.opus" ? 48'000 : 16'000;
    const auto path = folder.path() / name;
    write_sound(path, noise(4.0, 1, rate));
    const std::vector<float> whole = read_audio({.path = path, .duration_s = 4.0}, rate);
    for (const int first : {1, 577, 16'000, 31'999, 40'001, 62'000}) {
      const double offset_s = static_cast<double>(first) / rate;
      const std::vector<float> part =
          read_audio({.path = path, .offset_s = offset_s, .duration_s = 0.1}, rate);
      ASSERT_EQ(std::ssize(part), rate / 10) << name << " from " << first;
      double difference = 0.0, power = 0.0;
      for (size_t i = 0; i < part.size(); ++i) {
        const float expected = whole[static_cast<size_t>(first) + i];
        difference += std::pow(part[i] - expected, 2.0);
        power += std::pow(expected, 2.0);
      }
      // A lossy decoder that was entered in the middle has yet to settle; a sample off would
      // be 1.4.
      const bool is_exact = name.ends_with(".wav") || name.ends_with(".flac");
      EXPECT_LE(std::sqrt(difference / power), is_exact ? 0.0 : 0.01) << name << " from " << first;
    }
  }
}

TEST(ReadAudio, ReadsFromAnArchive) {
  const TempFolder folder;
  std::string archive;
  for (const std::string& name : kinds()) {
    write_sound(folder.path() / name, noise(1.0, 2, name == "a.opus" ? 48'000 : 16'000));
    archive += test::tar_file({.name = name}, content_of(folder.path() / name));
  }
  archive +=
      test::tar_file({.name = "none.wav"}, "") + test::tar_file({.name = "text.wav"}, "text");
  const auto tar = folder.write("shards/audio_0.tar", archive + test::tar_end());
  TarShards shards;
  for (const std::string& name : kinds()) {
    const std::filesystem::path inside = tar.string() + ":" + name;
    EXPECT_EQ(audio_info(inside, shards).frames, audio_info(folder.path() / name).frames) << name;
    EXPECT_EQ(read_audio({.path = inside, .duration_s = 1.0}, 16'000, shards),
              read_audio({.path = folder.path() / name, .duration_s = 1.0}, 16'000))
        << name;
    EXPECT_EQ(
        read_audio({.path = inside, .offset_s = 0.3, .duration_s = 0.2}, 16'000),
        read_audio({.path = folder.path() / name, .offset_s = 0.3, .duration_s = 0.2}, 16'000))
        << name;
  }
  const auto refusal = [&](const std::string& name) {
    return message_of<DataError>([&] { audio_info(tar.string() + ":" + name, shards); });
  };
  EXPECT_PRED2(contains, refusal("none.wav"), "audio_0.tar:none.wav: the file is empty");
  EXPECT_PRED2(contains, refusal("text.wav"), "audio_0.tar:text.wav: libsndfile says");
  EXPECT_PRED2(contains, refusal("no.wav"), "audio_0.tar: it has no file 'no.wav'");
}

// The size of the samples, in a WAV header of 44 bytes.
void set_wav_size(std::string& bytes, uint32_t size) {
  std::memcpy(bytes.data() + 40, &size, sizeof(size));
}

TEST(ReadAudio, WavHeaderClaimsTooMuch) {
  const TempFolder folder;
  write_sound(folder.path() / "a.wav", noise(2.0, 1, 16'000));
  const std::string bytes = content_of(folder.path() / "a.wav");
  const auto half = folder.write("half.wav", bytes.substr(0, bytes.size() / 2));
  const std::string cut =
      "could be decoded. Expected 2.000 s as its header says. The file is truncated";
  EXPECT_PRED2(contains, message_of<DataError>([&] { audio_info(half); }), cut);
  EXPECT_PRED2(
      contains,
      message_of<DataError>([&] { read_audio({.path = half, .duration_s = 2.0}, 16'000); }), cut);
  EXPECT_PRED2(contains, message_of<DataError>([&] {
                 read_audio({.path = half, .offset_s = 0.5, .duration_s = 1.5}, 16'000);
               }),
               cut);
  // What is there can be used by a manifest that knows.
  EXPECT_EQ(read_audio({.path = half, .offset_s = 0.25, .duration_s = 0.5}, 16'000).size(), 8'000u);
  // A program that wrote to a pipe did not know the size.
  std::string piped = bytes;
  set_wav_size(piped, 0xFFFFFFFF);
  EXPECT_DOUBLE_EQ(audio_info(folder.write("piped.wav", piped)).seconds(), 2.0);
}

TEST(ReadAudio, WavHeaderClaimsTooLittle) {
  const TempFolder folder;
  write_sound(folder.path() / "a.wav", noise(2.0, 1, 16'000));
  std::string bytes = content_of(folder.path() / "a.wav");
  set_wav_size(bytes, 32'000);
  const auto path = folder.write("less.wav", bytes);
  EXPECT_DOUBLE_EQ(audio_info(path).seconds(), 1.0);
  EXPECT_EQ(read_audio({.path = path, .duration_s = 1.0}, 16'000).size(), 16'000u);
  EXPECT_PRED2(contains, message_of<DataError>([&] {
                 read_audio({.path = path, .duration_s = 2.0}, 16'000);
               }),
               "1.000 s of audio. Expected 2 s as in the manifest");
  set_wav_size(bytes, 0);
  EXPECT_EQ(audio_info(folder.write("none.wav", bytes)).frames, 0);
}

// The library keeps its last error in a variable shared by all threads.
TEST(ReadAudio, ReportsTheRightErrorOnManyThreads) {
  const TempFolder folder;
  write_sound(folder.path() / "good.flac", noise(0.1, 1, 16'000));
  const auto text = folder.write("text.wav", "this is a text, not audio\n");
  std::vector<std::thread> threads;
  std::array<int, 4> wrong = {};
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        try {
          audio_info(round % 2 == 0 ? text : folder.path() / "good.flac");
          count += round % 2 == 0 ? 1 : 0;
        } catch (const DataError& error) {
          count += contains(error.what(), "Format not recognised") ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

// Handled by the policy for broken utterances, like any unreadable file: with a mapped archive, the
// run would be killed by a signal.
TEST(AudioInTar, TruncationDuringARunSkipsTheUtterance) {
  const TempFolder folder;
  std::string archive;
  std::string lines;
  size_t first_bytes = 0;
  for (const std::string name : {"a.flac", "b.wav", "c.wav"}) {
    if (first_bytes == 0) first_bytes = archive.size();
    write_sound(folder.path() / name, tone(1.0));
    archive += test::tar_file({.name = name}, test::content_of(folder.path() / name));
    lines += manifest_line({.file = "x.tar:" + name, .duration_s = 1.0, .text = "a"}) + "\n";
  }
  const auto path = folder.write("x.tar", archive + test::tar_end());
  const Manifest manifest = Manifest::read(folder.write("m.jsonl", lines));
  const Tokenizer tokenizer(Vocabulary::from_texts({"a"}), {});
  const Dataset strict(manifest, tokenizer, {});
  const Dataset skipping(manifest, tokenizer, {.broken = Policy::kSkip});
  for (const Dataset* dataset : {&strict, &skipping}) dataset->load(2, 0);
  // In the middle of the second file.
  std::filesystem::resize_file(path, first_bytes + 10'000);
  EXPECT_TRUE(std::holds_alternative<Example>(strict.load(0, 0)));
  EXPECT_THROW(strict.load(1, 0), DataError);
  EXPECT_THROW(strict.load(2, 0), DataError);
  EXPECT_TRUE(std::holds_alternative<SkippedUtterance>(skipping.load(1, 0)));
  EXPECT_TRUE(std::holds_alternative<SkippedUtterance>(skipping.load(2, 0)));
}

}  // namespace
}  // namespace sotto::data
