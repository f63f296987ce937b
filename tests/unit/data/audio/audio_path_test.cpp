#include "sotto/data/audio/audio_path.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/audio/tar_shards.h"
#include "support/tar_bytes.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;

TEST(AudioPath, MayPointIntoAnArchive) {
  EXPECT_FALSE(tar_member("a/b.flac"));
  EXPECT_FALSE(tar_member("a.tar"));
  const TarMember member = tar_member("a/b.tar:c/d.tar:e.flac").value();
  EXPECT_EQ(member.archive, "a/b.tar");
  EXPECT_EQ(member.name, "c/d.tar:e.flac");
  EXPECT_EQ(file_on_disk("a/b.tar:c.flac"), "a/b.tar");
  EXPECT_EQ(file_on_disk("a/b.flac"), "a/b.flac");
}

TEST(AudioPath, RecognisesAudioNames) {
  for (const char* name : {"a.wav", "a.FLAC", "x/a.b.Ogg", "a.mp3", "a.opus", "a.tar:b.flac"})
    EXPECT_TRUE(has_audio_name(name) && !needs_ffmpeg(name)) << name;
  for (const char* name : {"a.m4a", "a.MP4", "a.webm", "a.mkv"})
    EXPECT_TRUE(needs_ffmpeg(name) && !has_audio_name(name)) << name;
  for (const char* name : {"a.txt", "wav", "a", ".wav"})
    EXPECT_FALSE(needs_ffmpeg(name) || has_audio_name(name)) << name;
  EXPECT_EQ(ffmpeg_line("it's a.m4a"),
            R"(ffmpeg -i 'it'\''s a.m4a' -vn -ac 1 -ar 16000 'it'\''s a.flac')");
  EXPECT_EQ(shell_word("a/b.mp4"), "a/b.mp4");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(TarShards, NamesWhatIsMissing) {
  const test::TempFolder folder;
  const auto tar = folder.write("a.tar", test::tar_file({.name = "b.txt"}, "content"));
  TarShards shards;
  EXPECT_EQ(shards.find({.archive = tar, .name = "b.txt"}).size, 7);
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { shards.find({.archive = tar, .name = "c.txt"}); }),
               "a.tar: it has no file 'c.txt'. Expected one of its 1 files");
  EXPECT_PRED2(contains,
               message_of<DataError>([&] { shards.find({.archive = "no.tar", .name = "c"}); }),
               "no.tar: No such file");
}

}  // namespace
}  // namespace sotto::data
