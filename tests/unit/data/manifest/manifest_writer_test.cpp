#include "sotto/data/manifest/manifest_writer.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::content_of;
using test::message_of;
using test::TempFolder;

Utterance utterance(const std::string& file, double duration_s, const std::string& text) {
  Utterance result;
  result.file = file;
  result.duration_s = duration_s;
  result.text = text;
  return result;
}

TEST(ManifestWriter, WritesKeysInAFixedOrder) {
  Utterance audio = utterance("a b.flac", 2.25, "say \"żółw\"\n");
  EXPECT_EQ(manifest_line(audio),
            R"({"audio_filepath": "a b.flac", "duration": 2.25, "text": "say \"żółw\"\n"})");
  audio.offset_s = 0.0;
  audio.lang = "pl";
  audio.speaker = "s";
  EXPECT_EQ(manifest_line(audio),
            R"({"audio_filepath": "a b.flac", "offset": 0, "duration": 2.25, )"
            R"("text": "say \"żółw\"\n", "speaker": "s", "lang": "pl"})");
  Utterance features = utterance("a.f16", 1.49, "");
  features.num_frames = 149;
  features.feature_dim = 13;
  EXPECT_EQ(manifest_line(features),
            R"({"feature_filepath": "a.f16", "frame_offset": 0, "num_frames": 149, )"
            R"("feature_dim": 13, "duration": 1.49, "text": ""})");
}

// At every sample rate, rounding gives the original sample.
TEST(ManifestWriter, DurationsRoundTrip) {
  const TempFolder folder;
  const auto path = folder.path() / "deep" / "m.jsonl";
  std::vector<double> durations = {1e-9, 1.0, 12345.678901, 86'400.0};
  for (const int rate : {8'000, 16'000, 44'100, 48'000, 96'000, 192'000})
    durations.insert(durations.end(), {7'919.0 / rate, 1.0 / rate});
  ManifestWriter writer(path);
  for (const double duration_s : durations) writer.add(utterance("a.wav", duration_s, "a"));
  EXPECT_FALSE(std::filesystem::exists(path));
  writer.finish();
  EXPECT_EQ(writer.num_lines(), std::ssize(durations));
  const Manifest manifest = Manifest::read(path);
  for (size_t i = 0; i < durations.size(); ++i)
    EXPECT_NEAR(manifest.at(static_cast<int64_t>(i)).duration_s, durations[i], 6e-7);
  EXPECT_PRED2(contains, content_of(path), R"("duration": 0.494937,)");  // 7919 / 16000
  EXPECT_PRED2(contains, content_of(path), R"("duration": 1.0,)");
}

TEST(ManifestWriter, RefusesInvalidUtf8) {
  EXPECT_PRED2(contains, message_of<DataError>([] { manifest_line(utterance("a", 1, "\xff")); }),
               "text is not UTF-8");
  EXPECT_PRED2(contains, message_of<DataError>([] { manifest_line(utterance("\xff", 1, "a")); }),
               "audio_filepath is not UTF-8");
}

TEST(ManifestWriter, LeavesNoPartialFile) {
  const TempFolder folder;
  const auto path = folder.write("m.jsonl", "{what was there");
  {
    ManifestWriter writer(path);
    const test::FullDisk full(4'096);
    EXPECT_THROW(
        {
          for (int i = 0; i < 100'000; ++i) writer.add(utterance("a.wav", 1.0, "some text"));
          writer.finish();
        },
        DataError);
  }
  {
    ManifestWriter given_up(path);
  }
  EXPECT_EQ(content_of(path), "{what was there");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_THROW(ManifestWriter writer(folder.path()), DataError);
}

}  // namespace
}  // namespace sotto::data
