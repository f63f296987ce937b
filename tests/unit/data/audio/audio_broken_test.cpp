// Each way in which a file can be broken, and what is said of it.
#include <gtest/gtest.h>

#include <limits>

#include "sotto/core/error.h"
#include "sotto/data/audio/audio.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "unit/data/audio/sound_file.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

std::string refusal_of(const AudioSegment& segment) {
  return message_of<DataError>([&] { read_audio(segment, 16'000); });
}

std::string refusal_of(const std::filesystem::path& path, double duration_s = 1.0) {
  return refusal_of(AudioSegment{.path = path, .duration_s = duration_s});
}

TEST(BrokenAudio, MissingFile) {
  const TempFolder folder;
  EXPECT_PRED2(contains, refusal_of(folder.path() / "no.wav"),
               "no.wav: No such file or directory. Expected audio in WAV, FLAC, OGG or MP3");
  EXPECT_PRED2(contains, refusal_of(folder.path()), "it is a folder");
  EXPECT_PRED2(contains, refusal_of(folder.write("empty.wav", "")), "the file is empty");
}

TEST(BrokenAudio, NotAudio) {
  const TempFolder folder;
  EXPECT_PRED2(contains, refusal_of(folder.write("a.wav", "this is a text, not audio\n")),
               "a.wav: libsndfile says \"Format not recognised\". Expected audio in");
  EXPECT_PRED2(contains, refusal_of(folder.write("b.flac", "fLaC and then nothing")), "b.flac: ");
  EXPECT_PRED2(contains, refusal_of(folder.write("c.mp3", std::string(5'000, '\0'))), "c.mp3: ");
}

TEST(BrokenAudio, NoSamples) {
  const TempFolder folder;
  write_sound(folder.path() / "a.wav", tone(0.0));
  EXPECT_PRED2(contains, refusal_of(folder.path() / "a.wav"), "a.wav: no samples. Expected audio");
}

// The length would be accepted for the manifest, so that only the header shows the truncation.
TEST(BrokenAudio, TruncatedFlac) {
  const TempFolder folder;
  const std::filesystem::path whole = folder.path() / "whole.flac";
  write_sound(whole, tone(2.0));
  const std::string bytes = test::content_of(whole);
  const std::filesystem::path half = folder.write("half.flac", bytes.substr(0, bytes.size() / 2));
  for (const double duration_s : {1.0, 2.0}) {
    const std::string message = refusal_of(half, duration_s);
    if (duration_s == 2.0) {
      EXPECT_PRED2(contains, message,
                   "s could be decoded. Expected 2.000 s as its header says. The file is truncated "
                   "or broken.");
    } else {
      EXPECT_PRED2(contains, message, "2.000 s of audio. Expected 1 s as in the manifest");
    }
  }
  // Segments: one that lies in the missing half, and one that reaches to the end.
  for (const double offset_s : {0.5, 1.5}) {
    EXPECT_PRED2(contains,
                 refusal_of({.path = half, .offset_s = offset_s, .duration_s = 2.0 - offset_s}),
                 "half.flac: ");
  }
}

TEST(BrokenAudio, OtherTruncatedFormats) {
  const TempFolder folder;
  for (const char* name : {"a.wav", "a.ogg", "a.mp3"}) {
    const std::filesystem::path path = folder.path() / name;
    if (!can_write(path)) continue;
    write_sound(path, tone(2.0));
    const std::string bytes = test::content_of(path);
    folder.write(name, bytes.substr(0, bytes.size() / 2));
    EXPECT_PRED2(contains, refusal_of(path, 2.0), std::string(name) + ": ");
  }
}

TEST(BrokenAudio, FlacWithBytesOfAnotherFile) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "a.flac";
  write_sound(path, tone(2.0));
  std::string bytes = test::content_of(path);
  for (size_t i = bytes.size() / 2; i < bytes.size() / 2 + 2'000 && i < bytes.size(); ++i)
    bytes[i] = 'x';
  folder.write("a.flac", bytes);
  // libsndfile may give up or go on behind the gap; either way nothing but our error comes out.
  try {
    for (const float sample : read_audio({.path = path, .duration_s = 2.0}, 16'000))
      ASSERT_LE(std::abs(sample), 1.0f);
  } catch (const DataError& error) {
    EXPECT_PRED2(contains, error.what(), "a.flac: ");
  }
}

TEST(BrokenAudio, NanOrInfinity) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "a.float.wav";
  Sound sound = tone(1.0);
  sound.samples[700] = std::numeric_limits<float>::quiet_NaN();
  write_sound(path, sound);
  EXPECT_PRED2(contains, refusal_of(path), "sample 700 is nan. Expected finite samples");
  sound.samples[600] = -std::numeric_limits<float>::infinity();
  write_sound(path, sound);
  EXPECT_PRED2(contains, refusal_of(path), "sample 600 is -inf");
}

TEST(BrokenAudio, SegmentPastTheEnd) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "a.wav";
  write_sound(path, tone(1.0));
  EXPECT_PRED2(contains, refusal_of({.path = path, .offset_s = 1.0, .duration_s = 0.5}),
               "it ends at 1.000 s. Expected audio at 1 s, where the segment starts. The "
               "manifest's offset is "
               "in seconds.");
  EXPECT_PRED2(contains, refusal_of({.path = path, .offset_s = 1e300, .duration_s = 0.5}),
               "it ends at 1.000 s");
}

TEST(BrokenAudio, DurationDiffersFromTheManifest) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "a.wav";
  write_sound(path, tone(1.0));
  for (const double close : {0.95, 0.97, 1.0, 1.05, 1.07})
    EXPECT_EQ(read_audio({.path = path, .duration_s = close}, 16'000).size(), 16'000u) << close;
  EXPECT_PRED2(
      contains, refusal_of(path, 0.9),
      "1.000 s of audio. Expected 0.9 s as in the manifest, within 0.068 s. The manifest's "
      "duration is wrong, or the file is not the one it was made for.");
  EXPECT_PRED2(contains, refusal_of(path, 1.2), "1.000 s of audio. Expected 1.2 s");
  EXPECT_PRED2(contains, refusal_of({.path = path, .offset_s = 0.5, .duration_s = 0.7}),
               "0.500 s of audio. Expected 0.7 s");
  EXPECT_PRED2(contains, refusal_of(path, 1e300), "Expected 1e+300 s as in the manifest");
}

}  // namespace
}  // namespace sotto::data
