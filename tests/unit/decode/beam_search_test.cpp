#include "sotto/decode/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "sotto/core/rng.h"
#include "sotto/decode/decoding.h"
#include "sotto/decode/transcript.h"
#include "sotto/decode/transcript_files.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "unit/decode/ctc_labellings.h"

namespace sotto::decode {
namespace {

using kernels::CtcGreedy;

// <pad>, the space, a and b.
data::Tokenizer tokenizer() {
  return {data::Vocabulary::from_texts({"ab"}), {}};
}
constexpr int64_t kEntries = 4;

std::vector<float> draw_logits(int64_t num_frames, uint64_t seed) {
  return test::draw_logits(num_frames, kEntries, seed);
}

Transcript transcript_of(const std::vector<float>& logits, double seconds,
                         const BeamSearch* beam = nullptr) {
  return make_transcript(labels_of(logits, tokenizer(), beam),
                         {.seconds = seconds, .num_frames = std::ssize(logits) / kEntries},
                         tokenizer());
}

std::vector<int32_t> labels_of(const BeamSearch::Hypothesis& hypothesis) {
  std::vector<int32_t> labels;
  for (const CtcGreedy::Label& label : hypothesis.labels) labels.push_back(label.label);
  return labels;
}

constexpr BeamOptions kWide{.width = 10'000, .depth = 1e6};

TEST(BeamSearch, SumsAllPathsOfALabelling) {
  const BeamSearch search(tokenizer(), kWide);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<float> logits = draw_logits(6, seed);
    const std::map<std::vector<int32_t>, double> expected = test::all_labellings(logits, kEntries);
    const std::vector<BeamSearch::Hypothesis> found = search.decode(logits);
    ASSERT_EQ(found.size(), expected.size());
    for (const BeamSearch::Hypothesis& hypothesis : found)
      EXPECT_NEAR(hypothesis.score, std::log(expected.at(labels_of(hypothesis))), 1e-9);
    for (size_t i = 1; i < found.size(); ++i) EXPECT_LE(found[i].score, found[i - 1].score);
  }
}

// Two frames with 0.6 for blank and 0.4 for a: the likeliest path is empty (0.36), but "a" has
// 0.64.
TEST(BeamSearch, FindsWhatTheLikeliestPathMisses) {
  const auto small = static_cast<float>(std::log(1e-9));
  const auto a = static_cast<float>(std::log(0.4));
  const auto blank = static_cast<float>(std::log(0.6));
  const std::vector<float> logits = {blank, small, a, small, blank, small, a, small};
  const BeamSearch search(tokenizer(), {.width = 4});
  EXPECT_EQ(text_of(search.decode(logits).front().labels, tokenizer()), "a");
  EXPECT_NEAR(search.decode(logits).front().score, std::log(0.64), 1e-6);
  EXPECT_EQ(transcript_of(logits, 1.0).text, "");
  EXPECT_EQ(transcript_of(logits, 1.0, &search).text, "a");
}

TEST(BeamSearch, NarrowBeamUsuallyFindsTheBest) {
  const BeamSearch wide(tokenizer(), kWide);
  const BeamSearch narrow(tokenizer(), {.width = 8, .depth = 6.0});
  int num_equal = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::vector<float> logits = draw_logits(7, seed);
    num_equal += labels_of(wide.decode(logits).front()) == labels_of(narrow.decode(logits).front());
  }
  EXPECT_GE(num_equal, 45);
}

std::shared_ptr<const NgramModel> language_model() {
  const test::TempFolder folder;
  return std::make_shared<const NgramModel>(NgramModel::read(
      folder.write("lm.arpa",
                   "\\data\\\nngram 1=5\nngram 2=2\n\\1-grams:\n-99 <s> -0.3\n-0.9 </s>\n-3 <unk>\n"
                   "-0.5 ab -0.4\n-1.2 b -0.1\n\\2-grams:\n-0.2 <s> ab\n-0.1 ab b\n\\end\\\n")));
}

// Words between spaces, as the search is to count them.
double given_for(const std::vector<int32_t>& labels, const NgramModel& model,
                 const BeamOptions& options) {
  NgramModel::State state = model.begin();
  double given = 0.0;
  std::istringstream text(tokenizer().decode(labels));
  for (std::string word; text >> word;)
    given += options.words.lm_weight * model.score(state, word) + options.words.word_bonus;
  return given + options.words.lm_weight * model.finish(state);
}

TEST(BeamSearch, ScoresEachWordWhenItEnds) {
  const auto model = language_model();
  BeamOptions options = kWide;
  options.words.lm_weight = 0.7;
  options.words.word_bonus = 0.4;
  const BeamSearch search(tokenizer(), options, model);
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const std::vector<float> logits = draw_logits(6, seed);
    double best = -std::numeric_limits<double>::infinity();
    const std::map<std::vector<int32_t>, double> expected = test::all_labellings(logits, kEntries);
    for (const auto& [labels, probability] : expected)
      best = std::max(best, std::log(probability) + given_for(labels, *model, options));
    const std::vector<BeamSearch::Hypothesis> found = search.decode(logits);
    EXPECT_NEAR(found.front().score, best, 1e-9);
    for (const BeamSearch::Hypothesis& hypothesis : found) {
      const std::vector<int32_t> labels = labels_of(hypothesis);
      EXPECT_NEAR(hypothesis.score,
                  std::log(expected.at(labels)) + given_for(labels, *model, options), 1e-9);
    }
  }
}

// Unreachable prefixes are dropped, which changes nothing; if that is not enough, the search stops
// before it takes more.
TEST(BeamSearch, RespectsItsMemoryLimit) {
  const std::vector<float> logits = draw_logits(3'000, 5);
  constexpr int64_t kEnough = 4 << 20;
  const BeamSearch any(tokenizer(), {.width = 16});
  const BeamSearch bounded(tokenizer(), {.width = 16, .max_bytes = kEnough});
  const BeamSearch::Hypothesis expected = any.decode(logits).front();
  const BeamSearch::Hypothesis found = bounded.decode(logits).front();
  EXPECT_EQ(found.score, expected.score);
  ASSERT_EQ(found.labels.size(), expected.labels.size());
  for (size_t i = 0; i < found.labels.size(); ++i) {
    EXPECT_EQ(found.labels[i].label, expected.labels[i].label);
    EXPECT_EQ(found.labels[i].frame, expected.labels[i].frame);
  }
  const BeamSearch wide(tokenizer(), {.width = 10'000, .max_bytes = kEnough});
  EXPECT_PRED2(test::contains, test::message_of<OutOfMemory>([&] { wide.decode(logits); }),
               "searching with a beam of 10000: ");
}

// "a" leaves the beam and is reached again from the empty prefix, while "ab" is still in it.
TEST(BeamSearch, KeepsTheTimesOfSurvivingPrefixes) {
  const BeamSearch search(tokenizer(), {.width = 3});
  const std::vector<std::array<double, kEntries>> frames = {
      {0.55, 0.0, 0.45, 0.0}, {0.4, 0.0, 0.0, 0.6}, {0.9, 0.0, 0.1, 0.0}};
  std::vector<float> logits;
  for (const std::array<double, kEntries>& frame : frames) {
    for (const double probability : frame)
      logits.push_back(static_cast<float>(std::log(std::max(probability, 1e-30))));
  }
  const std::vector<BeamSearch::Hypothesis> found = search.decode(logits);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(labels_of(found[0]), std::vector<int32_t>({3}));
  ASSERT_EQ(labels_of(found[1]), std::vector<int32_t>({2, 3}));
  EXPECT_EQ(found[1].labels[0].frame, 0);
  EXPECT_EQ(found[1].labels[1].frame, 1);
}

TEST(BeamSearch, ReturnsLabelsInOrderOfTime) {
  for (const int64_t width : {1, 2, 3, 5, 8}) {
    const BeamSearch search(tokenizer(), {.width = width});
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      for (const BeamSearch::Hypothesis& hypothesis : search.decode(draw_logits(40, seed))) {
        for (size_t i = 1; i < hypothesis.labels.size(); ++i)
          EXPECT_LT(hypothesis.labels[i - 1].frame, hypothesis.labels[i].frame);
      }
    }
  }
}

TEST(BeamSearch, TreatsNonFiniteFrameAsBlank) {
  std::vector<float> logits = draw_logits(3, 1);
  for (int i = 4; i < 8; ++i)
    logits[static_cast<size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> with_blank = logits;
  for (int i = 4; i < 8; ++i) with_blank[static_cast<size_t>(i)] = i == 4 ? 50.0f : -50.0f;
  const BeamSearch search(tokenizer(), {});
  EXPECT_EQ(labels_of(search.decode(logits).front()), labels_of(search.decode(with_blank).front()));
  EXPECT_EQ(search.decode({}).front().labels.size(), 0u);
}

// A frame of half a second for each letter.
std::vector<float> spelled(const std::string& text) {
  std::vector<float> logits;
  for (const char letter : text) {
    const size_t label = letter == 'a' ? 2 : letter == 'b' ? 3 : letter == ' ' ? 1 : 0;
    for (size_t v = 0; v < kEntries; ++v) logits.push_back(v == label ? 9.0f : 0.0f);
  }
  return logits;
}

TEST(Transcript, HasWordTimes) {
  const Transcript transcript = transcript_of(spelled("__ab_ __b__a b"), 7.0);
  EXPECT_EQ(transcript.text, "ab ba b");
  ASSERT_EQ(transcript.words.size(), 3u);
  EXPECT_EQ(transcript.words[0].text, "ab");
  EXPECT_NEAR(transcript.words[0].start_s, 1.0, 1e-9);
  EXPECT_NEAR(transcript.words[0].end_s, 2.0, 1e-9);
  EXPECT_EQ(transcript.words[1].text, "ba");
  EXPECT_NEAR(transcript.words[1].start_s, 4.0, 1e-9);
  EXPECT_NEAR(transcript.words[1].end_s, 6.0, 1e-9);
  EXPECT_EQ(to_srt(transcript),
            "1\n00:00:01,000 --> 00:00:02,000\nab\n\n"
            "2\n00:00:04,000 --> 00:00:07,000\nba b\n\n");
}

TEST(Transcript, IsEmptyForSilence) {
  const Transcript transcript = transcript_of(spelled("____"), 2.0);
  EXPECT_EQ(transcript.text, "");
  EXPECT_TRUE(transcript.words.empty());
  EXPECT_EQ(to_srt(transcript), "");
}

}  // namespace
}  // namespace sotto::decode
