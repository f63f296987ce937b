#include "sotto/data/import/corpus_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/data/manifest/manifest_writer.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/wav_bytes.h"
#include "unit/data/audio/sound_file.h"

namespace sotto::data {
namespace {

using test::TempFolder;

std::vector<Fault> faults_in(const CorpusCheck& check, int64_t line) {
  std::vector<Fault> faults;
  for (const Finding& finding : check.findings) {
    if (finding.line == line) faults.push_back(finding.fault);
  }
  return faults;
}

// By so many percent: no two of them are the same audio.
Sound louder(Sound sound, int percent) {
  for (float& sample : sound.samples) sample *= 1.0f + 0.01f * static_cast<float>(percent);
  return sound;
}

// A corpus in which line after line something else is wrong.
class CorpusCheckTest : public ::testing::Test {
 protected:
  CorpusCheckTest() {
    add("good.wav", tone(1.0), "abc");
    Sound silent = tone(1.0);
    for (float& sample : silent.samples) sample *= 1e-4f;
    add("silent.float.wav", silent, "abc");
    Sound clipped = tone(1.0);
    for (float& sample : clipped.samples) sample = std::clamp(4.0f * sample, -1.0f, 1.0f);
    add("clipped.float.wav", clipped, "abc");
    Sound broken = tone(1.0);
    broken.samples[77] = std::numeric_limits<float>::quiet_NaN();
    add("nan.float.wav", broken, "abc");
    add("longer.wav", tone(2.0), "abc");
    add("no text.wav", tone(1.0), "");
    add("greek.wav", tone(1.0), "aβc");
    add("dense.wav", tone(1.0), "aabbaabbaabbaabb");
    line("good.wav", "abc");
    line("gone.wav", "abc");
    folder_.write("empty.wav", "");
    line("empty.wav", "abc");
    lines_ += "{broken\n";
  }

  void add(const std::string& name, const Sound& sound, const std::string& text) {
    write_sound(folder_.path() / name, louder(sound, num_sounds_++));
    line(name, text);
  }
  void line(const std::string& name, const std::string& text) {
    lines_ += manifest_line({.file = name, .duration_s = 1.0, .text = text}) + "\n";
  }

  TempFolder folder_;
  std::string lines_;
  int num_sounds_ = 0;
  Tokenizer tokenizer_{Vocabulary::from_texts({"abc"}), {}};
};

TEST_F(CorpusCheckTest, FindsEveryFault) {
  const Manifest manifest = Manifest::read(folder_.write("m.jsonl", lines_));
  const CorpusCheck check = check_corpus(
      manifest, {.tokenizer = &tokenizer_, .num_frames = [](int64_t rows) { return rows / 800; }});
  EXPECT_EQ(check.num_utterances, 11);
  const std::vector<std::vector<Fault>> expected = {{},
                                                    {Fault::kSilent},
                                                    {Fault::kClipped},
                                                    {Fault::kNotFinite},
                                                    {Fault::kWrongDuration},
                                                    {Fault::kEmptyText},
                                                    {Fault::kUnknownText},
                                                    {Fault::kTooManyLabels},
                                                    {Fault::kDuplicate},
                                                    {Fault::kUnreadable},
                                                    {Fault::kEmptyAudio},
                                                    {Fault::kBrokenLine}};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(faults_in(check, static_cast<int64_t>(i) + 1), expected[i]) << "line " << i + 1;
  EXPECT_EQ(check.clean(), (std::vector<int64_t>{0}));
  EXPECT_EQ(check.count(Fault::kSilent), 1);
}

// All broken lines are counted, although the index keeps the reasons of only the first 1000.
TEST_F(CorpusCheckTest, CountsAllBrokenLines) {
  for (int i = 0; i < 1499; ++i) lines_ += "{broken\n";
  const Manifest manifest = Manifest::read(folder_.write("m.jsonl", lines_));
  const CorpusCheck check = check_corpus(manifest, {});
  EXPECT_EQ(check.count(Fault::kBrokenLine), 1500);
  EXPECT_EQ(check.num_unlisted, 500);
  EXPECT_EQ(check.num_findings(), std::ssize(check.findings) + 500);
  EXPECT_EQ(check.count(Fault::kSilent), 1);
}

// Sixteen labels, eight of them doubled, need 24 frames.
TEST_F(CorpusCheckTest, CountsBlanksBetweenEqualLabels) {
  const Manifest manifest = Manifest::read(folder_.write("m.jsonl", lines_));
  for (const int64_t frames : {23, 24}) {
    const CorpusCheck check = check_corpus(
        manifest, {.tokenizer = &tokenizer_, .num_frames = [&](int64_t) { return frames; }});
    EXPECT_EQ(check.count(Fault::kTooManyLabels), frames == 23 ? 1 : 0);
  }
}

TEST_F(CorpusCheckTest, SkipsChecksWithoutATokenizer) {
  const Manifest manifest = Manifest::read(folder_.write("m.jsonl", lines_));
  const CorpusCheck check = check_corpus(manifest, {});
  EXPECT_EQ(check.count(Fault::kUnknownText), 0);
  EXPECT_EQ(check.count(Fault::kTooManyLabels), 0);
  EXPECT_EQ(check.count(Fault::kEmptyText), 1);
}

TEST_F(CorpusCheckTest, WritesCleanUtterances) {
  const Manifest manifest = Manifest::read(folder_.write("m.jsonl", lines_));
  const CorpusCheck check = check_corpus(manifest, {.tokenizer = &tokenizer_});
  const std::filesystem::path path = folder_.path() / "sub/clean.jsonl";
  write_clean(manifest, check, path);
  const Manifest clean = Manifest::read(path);
  EXPECT_EQ(clean.size(), 2);  // the one with many labels too: no network was named
  EXPECT_TRUE(std::filesystem::exists(clean.path_of(clean.at(0))));
  EXPECT_TRUE(check_corpus(clean, {.tokenizer = &tokenizer_}).findings.empty());
}

// Thirty utterances of about the same rate, and one with the transcript of another recording.
TEST(CorpusCheck, FindsUnusualSpeakingRates) {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 31; ++i) {
    const std::string name = fmt::format("{}.wav", i);
    write_sound(folder.path() / name, louder(tone(2.0), i));
    const size_t letters = i == 30 ? 2 : 24 + static_cast<size_t>(i % 5);
    lines +=
        manifest_line({.file = name, .duration_s = 2.0, .text = std::string(letters, 'a')}) + "\n";
  }
  const Tokenizer tokenizer(Vocabulary::from_texts({"a"}), {});
  const Manifest manifest = Manifest::read(folder.write("m.jsonl", lines));
  for (const bool has_tokenizer : {true, false}) {
    const CorpusCheck check =
        check_corpus(manifest, {.tokenizer = has_tokenizer ? &tokenizer : nullptr});
    ASSERT_EQ(check.findings.size(), 1u);
    EXPECT_EQ(check.findings[0].fault, Fault::kOddRate);
    EXPECT_EQ(check.findings[0].line, 31);
    EXPECT_EQ(check.findings[0].detail, fmt::format("1.0 {} per second, the median is 13.0",
                                                    has_tokenizer ? "labels" : "characters"));
  }
}

// With so few utterances there is no typical rate.
TEST(CorpusCheck, FindsAClipThatIsMuchTooLongForItsText) {
  const TempFolder folder;
  std::string lines;
  const auto add = [&](const std::string& name, double seconds, const std::string& text) {
    write_sound(folder.path() / name, tone(seconds));
    lines += manifest_line({.file = name, .duration_s = seconds, .text = text}) + "\n";
  };
  add("a.wav", 8.0, "abc");
  add("b.wav", 1.0, "abc");
  add("c.wav", 0.5, "これは百");
  add("d.wav", 0.25, "twenty five characters or more");
  const CorpusCheck check = check_corpus(Manifest::read(folder.write("m.jsonl", lines)), {});
  ASSERT_EQ(faults_in(check, 1), std::vector{Fault::kOddRate});
  EXPECT_EQ(check.findings[0].detail, "0.4 characters per second (3 in 8.0 s), expected 0.5 to 50");
  EXPECT_EQ(faults_in(check, 2), std::vector<Fault>{});
  EXPECT_EQ(faults_in(check, 3), std::vector<Fault>{});
  EXPECT_EQ(faults_in(check, 4), std::vector{Fault::kOddRate});
}

TEST(CorpusCheck, FindsACopyUnderAnotherName) {
  const TempFolder folder;
  std::string lines;
  for (const char* name : {"a.wav", "b.flac", "c.wav"}) {
    write_sound(folder.path() / name, louder(tone(1.0), name[0] == 'c' ? 1 : 0));
    lines += manifest_line({.file = name, .duration_s = 1.0, .text = "abc"}) + "\n";
  }
  const CorpusCheck check = check_corpus(Manifest::read(folder.write("m.jsonl", lines)), {});
  ASSERT_EQ(check.findings.size(), 1u);
  EXPECT_EQ(check.findings[0].fault, Fault::kDuplicate);
  EXPECT_EQ(check.findings[0].detail, "the same audio as in line 1");
}

// Wherever it was truncated, and whether the manifest has the original or the remaining length.
TEST(CorpusCheck, FindsTruncatedFlac) {
  const TempFolder folder;
  const std::filesystem::path whole = folder.path() / "whole.flac";
  write_sound(whole, tone(4.0));
  const std::string bytes = test::content_of(whole);
  std::string lines;
  int64_t num_lines = 0;
  for (const double share : {0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 1.0}) {
    const auto length = static_cast<size_t>(share * static_cast<double>(bytes.size() - 1));
    const std::string name = fmt::format("{}.flac", length);
    folder.write(name, bytes.substr(0, length));
    for (const double seconds : {4.0, 4.0 * share}) {
      if (seconds == 0.0 || (seconds == 4.0 * share && share == 1.0)) continue;
      lines +=
          manifest_line({.file = name, .duration_s = seconds, .text = "a few words here"}) + "\n";
      ++num_lines;
    }
  }
  const CorpusCheck check = check_corpus(Manifest::read(folder.write("m.jsonl", lines)), {});
  for (int64_t line = 1; line <= num_lines; ++line) {
    const std::vector<Fault> faults = faults_in(check, line);
    EXPECT_TRUE(std::ranges::any_of(faults,
                                    [](Fault fault) {
                                      return fault == Fault::kUnreadable ||
                                             fault == Fault::kEmptyAudio ||
                                             fault == Fault::kWrongDuration;
                                    }))
        << "line " << line << " of\n"
        << lines;
  }
}

// A file of 240 kB that would take 7 GiB at 16 kHz, and one with a valid header.
TEST(CorpusCheck, DoesNotDecodeFilesThatTakeTooMuchMemory) {
  const TempFolder folder;
  std::string slow = test::wav_bytes(120'000, 0.1);
  slow[24] = 1;  // Hz
  slow[25] = 0;
  folder.write("slow.wav", slow);
  folder.write("long.wav", test::wav_bytes(120'000, 0.2));
  const Manifest manifest = Manifest::read(folder.write(
      "m.jsonl",
      manifest_line(
          {.file = "slow.wav", .duration_s = 120'000.0, .text = std::string(90'000, 'a')}) +
          "\n" + manifest_line({.file = "long.wav", .duration_s = 7.5, .text = "abcdefghi"}) +
          "\n"));
  const CorpusCheck check = check_corpus(manifest, {.max_audio_bytes = 1'000'000});
  ASSERT_EQ(check.count(Fault::kUnreadable), 2);
  EXPECT_PRED2(test::contains, check.findings[0].detail, "its header claims 1 samples per second");
  EXPECT_PRED2(test::contains, check.findings[1].detail, "7.5 s of audio. Expected at most 5.2 s");
  EXPECT_EQ(check_corpus(manifest, {.max_audio_bytes = 1'440'000}).count(Fault::kUnreadable), 1);
}

}  // namespace
}  // namespace sotto::data
