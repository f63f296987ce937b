// A build without libsndfile and soxr: what it does not read it refuses, and says what to install.
// What it reads is in audio_plain_test.cpp.
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/batch/augmentation.h"
#include "sotto/data/batch/dataset.h"
#include "sotto/data/import/import.h"
#include "sotto/data/manifest/manifest.h"
#include "support/flac_bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/wav_bytes.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

constexpr const char* kPackages = "Install libsndfile1-dev and libsoxr-dev";

std::string refusal_of_kind(const std::filesystem::path& path) {
  const std::string message = message_of<ConfigError>([&] { read_audio({.path = path}, 16'000); });
  EXPECT_EQ(message_of<ConfigError>([&] { audio_info(path); }), message);
  EXPECT_PRED2(contains, message, kPackages);
  return message;
}

TEST(AudioWithoutLibraries, NamesUnsupportedFormatsAndTheirPackages) {
  const TempFolder folder;
  EXPECT_EQ(refusal_of_kind(folder.write("a.ogg", "OggS and so on")),
            "reading " + (folder.path() / "a.ogg").string() +
                ": an OGG file. Expected 16-bit WAV or FLAC, which this build reads. "
                "Install libsndfile1-dev and libsoxr-dev and build again for other formats and "
                "sample rates.");
  EXPECT_PRED2(contains, refusal_of_kind(folder.write("a.mp3", "ID3\x04")), ": an MP3 file.");
  EXPECT_PRED2(contains, refusal_of_kind(folder.write("b.mp3", "\xFF\xFB\x90")), ": an MP3 file.");
  EXPECT_PRED2(contains, refusal_of_kind(folder.write("a.wav", "FORM....AIFF")), "an AIFF file.");
  const std::string data(600, 'x');
  EXPECT_PRED2(contains,
               refusal_of_kind(folder.write("24.wav", test::wav_file(data, {.bits = 24}))),
               "WAV of 24-bit PCM.");
  EXPECT_PRED2(contains,
               refusal_of_kind(folder.write("f.wav", test::wav_file(data, {.bits = 32, .tag = 3}))),
               "WAV of 32-bit floating point.");
}

TEST(AudioWithoutLibraries, NamesUnsupportedFlac) {
  const TempFolder folder;
  EXPECT_PRED2(contains,
               refusal_of_kind(folder.write("a.flac", test::flac_stream({}, {.samples = 0}))),
               "FLAC without a length in its header.");
  std::string wide = test::flac_stream({});
  wide[20] = static_cast<char>(wide[20] | 1);  // the highest bit of bits per sample
  EXPECT_PRED2(contains, refusal_of_kind(folder.write("b.flac", wide)), "FLAC of 32 bits.");
  EXPECT_PRED2(contains, message_of<DataError>([&] {
                 audio_info(folder.write("c.flac", "fLaC and then nothing"));
               }),
               "a truncated or broken FLAC header");
}

TEST(AudioWithoutLibraries, NonAudioIsADataError) {
  const TempFolder folder;
  const std::string message =
      message_of<DataError>([&] { audio_info(folder.write("a.wav", "a text")); });
  EXPECT_PRED2(contains, message, "a.wav: neither WAV nor FLAC. Expected 16-bit WAV or FLAC");
  EXPECT_PRED2(contains, message, kPackages);
}

TEST(AudioWithoutLibraries, DoesNotSeekInBrokenFlac) {
  const TempFolder folder;
  const std::string bytes = test::flac_file(test::noise_samples(20'000));
  const auto path = folder.write("a.flac", bytes.substr(0, bytes.size() / 2));
  EXPECT_PRED2(contains, message_of<DataError>([&] {
                 read_audio({.path = path, .offset_s = 1.0, .duration_s = 0.25}, 16'000);
               }),
               "it could not be decoded up to 1.000 s. Expected 1.250 s as its header says.");
}

TEST(AudioWithoutLibraries, CannotBeResampled) {
  const TempFolder folder;
  const auto path =
      folder.write("a.wav", test::wav_file(test::noise_samples(8'000), {.rate = 8'000}));
  EXPECT_EQ(message_of<ConfigError>([&] { read_audio({.path = path}, 16'000); }),
            "reading " + path.string() +
                ": 8000 samples per second. Expected 16000, because this build does not resample. "
                "Install libsndfile1-dev and libsoxr-dev and build again.");
  EXPECT_EQ(read_audio({.path = path}, 8'000).size(), 8'000u);
  EXPECT_EQ(audio_info(path).sample_rate, 8'000);
  EXPECT_PRED2(contains, message_of<ConfigError>([] { resample({1.0f}, 14'400.0, 16'000.0); }),
               kPackages);
  EXPECT_EQ(resample({1.0f}, 16'000.0, 16'000.0), std::vector{1.0f});
}

// Before the first step, and not as a broken utterance that could be skipped.
TEST(AudioWithoutLibraries, CorpusOfAnotherRateIsRefusedAtOnce) {
  const TempFolder folder;
  folder.write("a.wav", test::wav_file(test::noise_samples(8'000), {.rate = 8'000}));
  const Manifest manifest = Manifest::read(
      folder.write("m.jsonl", R"({"audio_filepath": "a.wav", "duration": 1.0, "text": "a"})"));
  const Tokenizer tokenizer(Vocabulary::from_texts({"a"}), {});
  const Dataset strict(manifest, tokenizer, {});
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { strict.check_files(); }), kPackages);
  const Dataset skipping(manifest, tokenizer, {.broken = Policy::kSkip});
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { skipping.load(0, 0); }), kPackages);
}

TEST(AudioWithoutLibraries, SpeedCannotBeChanged) {
  const std::string message =
      message_of<ConfigError>([] { Augmentation({.speeds = {1.0, 0.9}}, 1, 16'000); });
  EXPECT_PRED2(contains, message, "applying data.augment.speeds, 0.9: 14400 samples per second.");
  EXPECT_PRED2(contains, message, kPackages);
  std::vector<float> samples = {0.5f};
  Augmentation({.speeds = {1.0}}, 1, 16'000).apply(samples, 0, 0);
  EXPECT_EQ(samples, std::vector{0.5f});
}

TEST(AudioWithoutLibraries, CannotBeWritten) {
  EXPECT_PRED2(contains, message_of<ConfigError>([] { write_flac("a.flac", {}, 16'000); }),
               kPackages);
}

TEST(Import, NeedsDecodingOnlyForUnknownDurations) {
  const TempFolder folder;
  folder.write("a.ogg", "OggS, not looked into");
  folder.write("b.wav", test::wav_bytes(8'000, 0.1));
  const auto out = folder.path() / "all.jsonl";
  import_corpus(folder.write("known.csv", "path,text,duration\na.ogg,one,1.5\n"), {.out = out});
  EXPECT_EQ(Manifest::read(out).at(0).duration_s, 1.5);
  import_corpus(folder.write("plain.csv", "path,text\nb.wav,one\n"), {.out = out});
  EXPECT_EQ(Manifest::read(out).at(0).duration_s, 0.5);
  EXPECT_PRED2(contains, message_of<ConfigError>([&] {
                 import_corpus(folder.write("unknown.csv", "path,text\na.ogg,one\n"), {.out = out});
               }),
               kPackages);
}

}  // namespace
}  // namespace sotto::data
