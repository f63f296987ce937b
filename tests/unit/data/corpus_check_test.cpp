#include "sotto/data/corpus_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sotto/data/manifest_writer.h"
#include "support/temp_folder.h"
#include "unit/data/sound_file.h"

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
    write_sound(folder_.path() / name, sound);
    line(name, text);
  }
  void line(const std::string& name, const std::string& text) {
    lines_ += manifest_line({.file = name, .duration_s = 1.0, .text = text}) + "\n";
  }

  TempFolder folder_;
  std::string lines_;
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

// Sixteen labels, eight of them doubled: 24 frames.
TEST_F(CorpusCheckTest, CountsTheBlanksBetweenEqualLabels) {
  const Manifest manifest = Manifest::read(folder_.write("m.jsonl", lines_));
  for (const int64_t frames : {23, 24}) {
    const CorpusCheck check = check_corpus(
        manifest, {.tokenizer = &tokenizer_, .num_frames = [&](int64_t) { return frames; }});
    EXPECT_EQ(check.count(Fault::kTooManyLabels), frames == 23 ? 1 : 0);
  }
}

TEST_F(CorpusCheckTest, LooksAtWhatItIsGiven) {
  const Manifest manifest = Manifest::read(folder_.write("m.jsonl", lines_));
  const CorpusCheck check = check_corpus(manifest, {});
  EXPECT_EQ(check.count(Fault::kUnknownText), 0);
  EXPECT_EQ(check.count(Fault::kTooManyLabels), 0);
  EXPECT_EQ(check.count(Fault::kEmptyText), 1);
}

TEST_F(CorpusCheckTest, WritesWhatIsClean) {
  const Manifest manifest = Manifest::read(folder_.write("m.jsonl", lines_));
  const CorpusCheck check = check_corpus(manifest, {.tokenizer = &tokenizer_});
  const std::filesystem::path path = folder_.path() / "sub/clean.jsonl";
  write_clean(manifest, check, path);
  const Manifest clean = Manifest::read(path);
  EXPECT_EQ(clean.size(), 2);  // the one with many labels too: no network was named
  EXPECT_TRUE(std::filesystem::exists(clean.path_of(clean.at(0))));
  EXPECT_TRUE(check_corpus(clean, {.tokenizer = &tokenizer_}).findings.empty());
}

// Thirty people of about one rate, and one transcript of another recording.
TEST(CorpusCheck, FindsOddRates) {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 31; ++i) {
    const std::string name = fmt::format("{}.wav", i);
    write_sound(folder.path() / name, tone(2.0));
    const size_t letters = i == 30 ? 2 : 24 + static_cast<size_t>(i % 5);
    lines +=
        manifest_line({.file = name, .duration_s = 2.0, .text = std::string(letters, 'a')}) + "\n";
  }
  const Tokenizer tokenizer(Vocabulary::from_texts({"a"}), {});
  const CorpusCheck check =
      check_corpus(Manifest::read(folder.write("m.jsonl", lines)), {.tokenizer = &tokenizer});
  ASSERT_EQ(check.findings.size(), 1u);
  EXPECT_EQ(check.findings[0].fault, Fault::kOddRate);
  EXPECT_EQ(check.findings[0].line, 31);
  EXPECT_EQ(check.findings[0].detail, "1.0 labels a second, where 13.0 are usual");
}

}  // namespace
}  // namespace sotto::data
