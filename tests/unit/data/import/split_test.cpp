#include "sotto/data/import/split.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/data/manifest/manifest.h"
#include "sotto/data/manifest/manifest_paths.h"
#include "support/full_disk.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::content_of;
using test::message_of;
using test::TempFolder;

// Utterances of 1 to 10 s, as many a speaker as it comes.
fs::path write_manifest(const TempFolder& folder, int64_t num_utterances, int64_t num_speakers) {
  const RandomStream stream({.seed = 3});
  std::string text;
  for (int64_t u = 0; u < num_utterances; ++u) {
    const auto n = static_cast<uint64_t>(2 * u);
    const double seconds = 1.0 + 9.0 * stream.uniform(n);
    // Some speak more than others.
    const auto speaker = static_cast<int64_t>(std::pow(stream.uniform(n + 1), 2.0f) *
                                              static_cast<float>(num_speakers));
    text += fmt::format(
        "{{\"audio_filepath\":\"audio/{}.wav\",  \"duration\": {:.3f}, \"text\": \"ż {}\"", u,
        seconds, u);
    if (num_speakers > 0) text += fmt::format(", \"speaker\": \"s{}\"", speaker);
    text += "}\r\n";
  }
  return folder.write("all.jsonl", text);
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::istringstream text(content_of(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// A folder for the parts of one more split.
fs::path next_out(const TempFolder& folder) {
  int64_t number = 1;
  while (fs::exists(folder.path() / fmt::format("out-{}", number))) ++number;
  return folder.path() / fmt::format("out-{}", number);
}

double seconds_of(const SplitResult& result, size_t part) {
  return result.parts.at(part).seconds;
}

TEST(Split, EveryUtteranceIsInOnePart) {
  const TempFolder folder;
  const fs::path manifest = write_manifest(folder, 500, 20);
  for (const SplitBy by : {SplitBy::kSpeaker, SplitBy::kRandom}) {
    const SplitResult result =
        split_manifest(manifest, {.by = by, .seed = 5, .out = folder.path()});
    ASSERT_EQ(result.parts.size(), 3u);
    std::multiset<std::string> lines;
    std::map<std::string, std::set<std::string>> parts_of_speaker;
    for (const SplitPart& part : result.parts) {
      const std::vector<std::string> of_part = lines_of(part.manifest);
      EXPECT_EQ(std::ssize(of_part), part.num_utterances);
      lines.insert(of_part.begin(), of_part.end());
      const Manifest read = Manifest::read(part.manifest);
      double seconds = 0.0;
      int64_t last = -1;
      for (int64_t u = 0; u < read.size(); ++u) {
        const Utterance& utterance = read.at(u);
        seconds += utterance.duration_s;
        parts_of_speaker[utterance.speaker].insert(part.name);
        const int64_t number = std::stoll(utterance.text.substr(utterance.text.find(' ')));
        EXPECT_GT(number, last);  // in the order of the manifest
        last = number;
      }
      EXPECT_NEAR(seconds, part.seconds, 1e-6);
    }
    const std::vector<std::string> all = lines_of(manifest);
    EXPECT_EQ(lines, std::multiset<std::string>(all.begin(), all.end()));
    size_t in_several = 0;
    for (const auto& [speaker, parts] : parts_of_speaker) in_several += parts.size() > 1 ? 1 : 0;
    EXPECT_EQ(in_several > 0, by == SplitBy::kRandom);
    for (const SplitPart& part : result.parts) fs::remove(part.manifest);
  }
}

TEST(Split, PartsHaveTheRequestedSizes) {
  const TempFolder folder;
  const fs::path manifest = write_manifest(folder, 1'000, 60);
  const auto split = [&](const char* dev, const char* test, SplitBy by) {
    return split_manifest(manifest, {.dev = PartSize::parse(dev),
                                     .test = PartSize::parse(test),
                                     .by = by,
                                     .out = next_out(folder)});
  };
  for (const SplitBy by : {SplitBy::kSpeaker, SplitBy::kRandom}) {
    const SplitResult result = split("5%", "10%", by);
    const double all = seconds_of(result, 0) + seconds_of(result, 1) + seconds_of(result, 2);
    EXPECT_NEAR(seconds_of(result, 1) / all, 0.05, 0.01);
    EXPECT_NEAR(seconds_of(result, 2) / all, 0.10, 0.01);
  }
  const SplitResult counts = split("200", "7", SplitBy::kRandom);
  EXPECT_EQ(counts.parts[1].num_utterances, 200);
  EXPECT_EQ(counts.parts[2].num_utterances, 7);
  EXPECT_NEAR(static_cast<double>(split("200", "50", SplitBy::kSpeaker).parts[1].num_utterances),
              200.0, 10.0);
  const SplitResult none = split("5%", "0", SplitBy::kSpeaker);
  ASSERT_EQ(none.parts.size(), 2u);
  EXPECT_EQ(none.parts[1].name, "dev");
  // Less than anybody has: the part is not empty.
  EXPECT_EQ(split("0.001%", "1", SplitBy::kSpeaker).parts[1].num_speakers, 1);
}

TEST(Split, IsTheSameForTheSameSeed) {
  const TempFolder folder;
  const fs::path manifest = write_manifest(folder, 200, 12);
  for (const SplitBy by : {SplitBy::kSpeaker, SplitBy::kRandom}) {
    const auto dev = [&](uint64_t seed) {
      const fs::path out = next_out(folder);
      split_manifest(manifest, {.by = by, .seed = seed, .out = out});
      return content_of(out / "dev.jsonl");
    };
    const std::string first = dev(1);
    EXPECT_EQ(dev(1), first);
    EXPECT_NE(dev(2), first);
  }
}

TEST(Split, IsBySpeakerIfPossible) {
  const TempFolder folder;
  const auto by = [&](int64_t num_speakers) {
    return split_manifest(write_manifest(folder, 60, num_speakers), {.out = next_out(folder)}).by;
  };
  EXPECT_EQ(by(9), SplitBy::kSpeaker);
  EXPECT_EQ(by(1), SplitBy::kRandom);
  EXPECT_EQ(by(0), SplitBy::kRandom);
}

TEST(Split, RefusesImpossibleSplits) {
  const TempFolder folder;
  const auto refusal = [&](const fs::path& manifest, const SplitOptions& options) {
    return message_of<ConfigError>([&] { split_manifest(manifest, options); });
  };
  const SplitOptions by_speaker{.by = SplitBy::kSpeaker, .out = folder.path() / "out"};
  EXPECT_PRED2(contains, refusal(write_manifest(folder, 10, 1), by_speaker),
               "all.jsonl: 1 speaker for 3 parts. Expected at least one per part. --by random "
               "ignores speakers.");
  EXPECT_PRED2(contains, refusal(write_manifest(folder, 10, 0), by_speaker),
               "line 1 has no speaker. Expected a speaker on every line. --by random");
  const fs::path manifest = write_manifest(folder, 10, 4);
  EXPECT_PRED2(contains,
               refusal(manifest, {.dev = {.share = 0.5}, .test = {.count = 5}, .out = "out"}),
               "dev 50% and test 5 of 10 utterances. Expected utterances left to train on");
  EXPECT_PRED2(contains, refusal(write_manifest(folder, 2, 0), {.out = folder.path() / "out"}),
               "2 utterances for 3 parts");
  for (const char* text : {"", "%", "-1", "100%", "5 percent", "2.5", "nan", "1e99"})
    EXPECT_PRED2(contains, message_of<ConfigError>([&] { PartSize::parse(text); }), "such as 5%")
        << text;
  fs::rename(folder.path() / "all.jsonl", folder.path() / "train.jsonl");
  EXPECT_PRED2(contains,
               refusal(folder.path() / "train.jsonl",
                       {.dev = {.count = 1}, .test = {}, .out = folder.path()}),
               "it would be replaced by a part of itself");
  EXPECT_FALSE(fs::exists(folder.path() / "out" / "train.jsonl"));
}

// Utterances of an old test.jsonl could be in a new train.jsonl.
TEST(Split, IsNotMixedWithAnOlderOne) {
  const TempFolder folder;
  const fs::path manifest = write_manifest(folder, 100, 0);
  const fs::path out = folder.path() / "parts";
  split_manifest(manifest, {.seed = 1, .out = out});
  const std::string test = content_of(out / "test.jsonl");
  for (const PartSize& size : {PartSize{.share = 0.05}, PartSize{}}) {
    const std::string refusal = message_of<ConfigError>(
        [&] { split_manifest(manifest, {.test = size, .seed = 2, .out = out}); });
    EXPECT_PRED2(contains, refusal, "parts/test.jsonl. Expected a folder without parts");
    EXPECT_PRED2(contains, refusal, "Remove them, or name another folder with --out.");
  }
  EXPECT_EQ(content_of(out / "test.jsonl"), test);
  // A part that is not written now is in the way as well.
  fs::remove(out / "train.jsonl");
  fs::remove(out / "dev.jsonl");
  EXPECT_THROW(split_manifest(manifest, {.test = {}, .out = out}), ConfigError);
  EXPECT_FALSE(fs::exists(out / "train.jsonl"));
}

TEST(Split, PathsStayValidInAnotherFolder) {
  const TempFolder folder;
  const auto manifest = folder.write(
      "in/all.jsonl",
      R"({"note": {"audio_filepath": "x"}, "audio_filepath" : "a\u0020b.wav", "duration": 1, "text": "audio_filepath"})"
      "\n"
      R"({"audio_filepath": "/elsewhere/b.wav","duration":2,"text":"b"})"
      "\n"
      R"({"audio_filepath": "../c.tar:d.wav","duration":3,"text":"c", "extra": ["audio_filepath"]})"
      "\n");
  split_manifest(manifest,
                 {.dev = {.count = 1}, .test = {.count = 1}, .out = folder.path() / "out/deep"});
  std::set<std::string> lines;
  for (const char* part : {"train", "dev", "test"}) {
    for (const std::string& line :
         lines_of(folder.path() / "out/deep" / (std::string(part) + ".jsonl")))
      lines.insert(line);
  }
  EXPECT_EQ(
      lines,
      (std::set<std::string>{
          R"({"note": {"audio_filepath": "x"}, "audio_filepath" : "../../in/a b.wav", "duration": 1, "text": "audio_filepath"})",
          R"({"audio_filepath": "/elsewhere/b.wav","duration":2,"text":"b"})",
          R"({"audio_filepath": "../../c.tar:d.wav","duration":3,"text":"c", "extra": ["audio_filepath"]})"}));
}

TEST(Split, LeavesNoPartialFiles) {
  const TempFolder folder;
  const fs::path manifest = write_manifest(folder, 2'000, 9);
  {
    const test::FullDisk full(8'192);
    EXPECT_THROW(split_manifest(manifest, {.out = folder.path() / "out"}), DataError);
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "out"));
}

TEST(ManifestPaths, AreRelativeToTheCurrentFolderByDefault) {
  EXPECT_EQ(ManifestPaths("").name_of("x/a.wav"), "x/a.wav");
}

TEST(ManifestPaths, AreRelativeIfPossible) {
  const TempFolder folder;
  fs::create_directories(folder.path() / "a/b");
  fs::create_directories(folder.path() / "c");
  fs::create_directory_symlink(folder.path() / "a/b", folder.path() / "link");
  fs::create_directory_symlink(folder.path() / "c", folder.path() / "a/b/audio");
  ManifestPaths paths(folder.path() / "a/b");
  EXPECT_EQ(paths.name_of(folder.path() / "a/b/x.wav"), "x.wav");
  EXPECT_EQ(paths.name_of(folder.path() / "a/./b/d/../x.wav"), "x.wav");
  EXPECT_EQ(paths.name_of(folder.path() / "c/x.wav"), "../../c/x.wav");
  EXPECT_EQ(paths.name_of(folder.path() / "a/b/audio/x.wav"), "audio/x.wav");
  EXPECT_EQ(paths.name_of("/proc/version"), "/proc/version");
  // Above a link lies what the link leads to.
  EXPECT_EQ(ManifestPaths(folder.path() / "link").name_of(folder.path() / "c/x.wav"),
            "../../c/x.wav");
  // Below one, both sides are followed.
  fs::create_directory_symlink(folder.path() / "a", folder.path() / "alias");
  EXPECT_EQ(ManifestPaths(folder.path() / "alias/m").name_of(folder.path() / "alias/b/x.wav"),
            "../b/x.wav");
  EXPECT_EQ(ManifestPaths(folder.path() / "not/yet").name_of(folder.path() / "c/x.wav"),
            "../../c/x.wav");
}

TEST(ManifestPaths, ReplaceTheFileThatTheParserReads) {
  const auto moved = [](const std::string& line) { return with_file(line, "audio_filepath", "b"); };
  EXPECT_EQ(moved(R"({"text": "audio_filepath", "audio_filepath" : "a"})"),
            R"({"text": "audio_filepath", "audio_filepath" : "b"})");
  // Of a key that is there twice the last one counts.
  EXPECT_EQ(moved(R"({"audio_filepath": "a", "audio_filepath": "c", "text": ""})"),
            R"({"audio_filepath": "a", "audio_filepath": "b", "text": ""})");
  EXPECT_EQ(moved("{\"audio_filepath\"\r:\r\"a\"}"), "{\"audio_filepath\"\r:\r\"b\"}");
}

}  // namespace
}  // namespace sotto::data
