// 16-bit WAV and FLAC, which every build reads, with libsndfile and without: the same samples, the
// same segments, the same errors.
#include <gtest/gtest.h>

#include <vector>

#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/audio_error.h"
#include "sotto/data/audio/tar_shards.h"
#include "support/flac_bytes.h"
#include "support/tar_bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/wav_bytes.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

constexpr int64_t kPlainFrames = 20'000;  // 1.25 s, five blocks of FLAC

std::vector<float> as_floats(const std::vector<int16_t>& numbers) {
  std::vector<float> samples;
  for (const int16_t number : numbers) samples.push_back(static_cast<float>(number) / 32'768.0f);
  return samples;
}

class PlainAudio : public ::testing::Test {
 protected:
  PlainAudio() {
    const std::string wav = test::wav_file(numbers_), flac = test::flac_file(numbers_);
    paths_ = {folder_.write("a.wav", wav), folder_.write("a.flac", flac)};
    const auto tar =
        folder_.write("x.tar", test::tar_file({.name = "a.wav"}, wav) +
                                   test::tar_file({.name = "a.flac"}, flac) + test::tar_end());
    for (const char* name : {"a.wav", "a.flac"}) paths_.emplace_back(tar.string() + ":" + name);
  }

  // The first bytes of each file, under another name.
  std::vector<std::filesystem::path> cut_files(double part) const {
    std::vector<std::filesystem::path> cut;
    for (const char* name : {"a.wav", "a.flac"}) {
      const std::string bytes = test::content_of(folder_.path() / name);
      const auto size = static_cast<size_t>(part * static_cast<double>(bytes.size()));
      cut.push_back(folder_.write(std::string("cut_") + name, bytes.substr(0, size)));
    }
    return cut;
  }

  const std::vector<int16_t> numbers_ = test::noise_samples(kPlainFrames);
  const std::vector<float> samples_ = as_floats(numbers_);
  const TempFolder folder_;
  // WAV and FLAC on the disk, then both in an archive.
  std::vector<std::filesystem::path> paths_;
};

std::string plain_refusal(const AudioSegment& segment) {
  return message_of<DataError>([&] { read_audio(segment, 16'000); });
}

TEST_F(PlainAudio, IsReadWhole) {
  for (const std::filesystem::path& path : paths_) {
    EXPECT_EQ(read_audio({.path = path, .duration_s = 1.25}, 16'000), samples_) << path;
    EXPECT_EQ(read_audio({.path = path}, 16'000), samples_) << path;
    const AudioInfo info = audio_info(path);
    EXPECT_EQ(info.sample_rate, 16'000) << path;
    EXPECT_EQ(info.channels, 1) << path;
    EXPECT_EQ(info.frames, kPlainFrames) << path;
  }
}

TEST_F(PlainAudio, IsReadInSegments) {
  TarShards shards;
  for (const std::filesystem::path& path : paths_) {
    for (const int64_t first : {0, 1, 4'095, 4'096, 4'097, 12'000}) {
      const double offset_s = static_cast<double>(first) / 16'000.0;
      const std::vector<float> expected(samples_.begin() + first, samples_.begin() + first + 8'000);
      EXPECT_EQ(read_audio({.path = path, .offset_s = offset_s, .duration_s = 0.5}, 16'000, shards),
                expected)
          << path << " from " << first;
    }
    // To the end: of an unknown duration, and of one that is rounded up.
    const std::vector<float> rest(samples_.begin() + 16'000, samples_.end());
    EXPECT_EQ(read_audio({.path = path, .offset_s = 1.0}, 16'000), rest) << path;
    EXPECT_EQ(read_audio({.path = path, .offset_s = 1.0, .duration_s = 0.26}, 16'000), rest)
        << path;
  }
}

TEST_F(PlainAudio, ChannelsAreAveraged) {
  for (const uint32_t channels : {2U, 3U}) {
    const auto path = folder_.write("channels.wav",
                                    test::wav_file(std::span(numbers_).first(18'000),
                                                   {.channels = channels, .is_extensible = true}));
    const std::vector<float> mono = read_audio({.path = path}, 16'000);
    ASSERT_EQ(mono.size(), 18'000 / channels);
    for (size_t frame = 0; frame < mono.size(); ++frame) {
      float sum = 0.0f;
      for (size_t c = 0; c < channels; ++c) sum += samples_[frame * channels + c];
      ASSERT_EQ(mono[frame], sum / static_cast<float>(channels)) << frame;
    }
    EXPECT_EQ(audio_info(path).channels, channels);
  }
}

TEST_F(PlainAudio, TruncatedFileIsRefused) {
  const std::string cut =
      "s could be decoded. Expected 1.250 s as its header says. The file is truncated";
  for (const std::filesystem::path& path : cut_files(0.5)) {
    EXPECT_PRED2(contains, plain_refusal({.path = path, .duration_s = 1.25}), cut);
    EXPECT_PRED2(contains, plain_refusal({.path = path, .offset_s = 0.25, .duration_s = 1.0}), cut);
    // What is there can be used by a manifest that knows.
    const std::vector<float> part =
        read_audio({.path = path, .offset_s = 0.1, .duration_s = 0.2}, 16'000);
    EXPECT_EQ(part, std::vector(samples_.begin() + 1'600, samples_.begin() + 4'800)) << path;
  }
  const std::filesystem::path wav = folder_.path() / "cut_a.wav";
  EXPECT_PRED2(contains, message_of<DataError>([&] { audio_info(wav); }), cut);
  // The header of FLAC is believed until it is decoded; what lies behind the cut is not there.
  const std::filesystem::path flac = folder_.path() / "cut_a.flac";
  EXPECT_EQ(audio_info(flac).frames, kPlainFrames);
  EXPECT_PRED2(contains, plain_refusal({.path = flac, .offset_s = 1.0, .duration_s = 0.25}),
               "cut_a.flac: ");
}

TEST_F(PlainAudio, IsCheckedAgainstTheManifest) {
  for (const std::filesystem::path& path : paths_) {
    EXPECT_PRED2(contains, plain_refusal({.path = path, .duration_s = 1.0}),
                 "1.250 s of audio. Expected 1 s as in the manifest");
    EXPECT_PRED2(contains, plain_refusal({.path = path, .duration_s = 2.0}),
                 "1.250 s of audio. Expected 2 s as in the manifest");
    EXPECT_PRED2(contains, plain_refusal({.path = path, .offset_s = 1.25, .duration_s = 0.1}),
                 "it ends at 1.250 s. Expected audio at 1.25 s, where the segment starts");
    EXPECT_PRED2(contains, plain_refusal({.path = path, .max_bytes = 100'000}),
                 "Cut the file into shorter ones");
  }
}

AudioError::Kind kind_of_refusal(const std::filesystem::path& path) {
  try {
    read_audio({.path = path}, 16'000);
  } catch (const AudioError& error) {
    return error.kind();
  }
  ADD_FAILURE() << path << ": nothing was thrown";
  return {};
}

TEST_F(PlainAudio, UnreadableAndEmptyFilesAreDistinguished) {
  EXPECT_PRED2(contains, plain_refusal({.path = folder_.path() / "no.wav"}), "No such file");
  EXPECT_EQ(kind_of_refusal(folder_.path() / "no.wav"), AudioError::Kind::kUnreadable);
  EXPECT_EQ(kind_of_refusal(folder_.path()), AudioError::Kind::kUnreadable);
  EXPECT_EQ(kind_of_refusal(folder_.write("text.wav", "a text")), AudioError::Kind::kUnreadable);
  EXPECT_EQ(kind_of_refusal(folder_.write("rate.wav", test::wav_file(numbers_, {.rate = 7}))),
            AudioError::Kind::kUnreadable);
  EXPECT_EQ(kind_of_refusal(folder_.write("empty.flac", "")), AudioError::Kind::kEmpty);
  EXPECT_EQ(kind_of_refusal(folder_.write("none.wav", test::wav_file(""))),
            AudioError::Kind::kEmpty);
}

}  // namespace
}  // namespace sotto::data
