// Scores of label prefixes under CTC, against the sum over all paths.
#include "sotto/decode/ctc_prefix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "unit/decode/ctc_labellings.h"

namespace sotto::decode {
namespace {

using Labelling = std::vector<int32_t>;

constexpr int64_t kNumFrames = 5;
constexpr int64_t kNumEntries = 4;

// Scores with their own room.
struct Scores {
  explicit Scores(const std::vector<float>& logits)
      : room(logits.size()), prefixes(logits, kNumEntries, /*blank=*/0, room) {}

  std::vector<float> room;
  CtcPrefixes prefixes;
};

CtcPrefixes::State state_of(const CtcPrefixes& prefixes, const Labelling& labels) {
  CtcPrefixes::State state = prefixes.begin();
  for (const int32_t label : labels) state = prefixes.extend(state, label);
  return state;
}

bool begins_with(const Labelling& whole, const Labelling& prefix) {
  return whole.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), whole.begin());
}

TEST(CtcPrefixes, SumAllPathsOfAPrefix) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const std::vector<float> logits = test::draw_logits(kNumFrames, kNumEntries, seed);
    const auto all = test::all_labellings(logits, kNumEntries);
    const Scores scores(logits);
    const CtcPrefixes& prefixes = scores.prefixes;
    EXPECT_EQ(prefixes.num_frames(), kNumFrames);
    for (const auto& [labels, probability] : all) {
      EXPECT_NEAR(prefixes.finish(state_of(prefixes, labels)), std::log(probability), 1e-4);
      if (labels.empty()) continue;
      double expected = 0.0;
      for (const auto& [other, of_other] : all)
        if (begins_with(other, labels)) expected += of_other;
      const Labelling before(labels.begin(), labels.end() - 1);
      EXPECT_NEAR(prefixes.score(state_of(prefixes, before), labels.back()), std::log(expected),
                  1e-4);
    }
  }
}

TEST(CtcPrefixes, WithoutAnyPathAreImpossible) {
  const Scores scores(test::draw_logits(3, kNumEntries, 1));
  const CtcPrefixes& prefixes = scores.prefixes;
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  // A repeated label needs a blank between: five frames for three times the same.
  EXPECT_EQ(prefixes.score(state_of(prefixes, {1, 1}), 1), kNever);
  EXPECT_GT(prefixes.score(state_of(prefixes, {1, 2}), 1), kNever);
  EXPECT_EQ(prefixes.score(state_of(prefixes, {1, 2, 3}), 1), kNever);
  EXPECT_EQ(prefixes.finish(state_of(prefixes, {1, 2, 3, 1})), kNever);
  EXPECT_EQ(prefixes.score(prefixes.begin(), 0), kNever) << "the blank is no label";
}

TEST(CtcPrefixes, CountAFrameWithNaNAsBlank) {
  std::vector<float> logits = test::draw_logits(kNumFrames, kNumEntries, 2);
  std::vector<float> broken = logits;
  broken[2 * kNumEntries + 1] = std::numeric_limits<float>::quiet_NaN();
  for (int64_t v = 0; v < kNumEntries; ++v)
    logits[static_cast<size_t>(2 * kNumEntries + v)] = v == 0 ? 100.0f : -100.0f;
  const Scores of_logits(logits), of_broken(broken);
  const CtcPrefixes& expected = of_logits.prefixes;
  const CtcPrefixes& found = of_broken.prefixes;
  for (const Labelling& labels : {Labelling{}, Labelling{1}, Labelling{2, 3}})
    EXPECT_NEAR(found.finish(state_of(found, labels)), expected.finish(state_of(expected, labels)),
                1e-4);
}

// The first frame of each label on the best of all paths of exactly these labels.
std::vector<int64_t> best_path(const std::vector<float>& logits, const Labelling& labels) {
  const auto num_paths = static_cast<int64_t>(std::pow(kNumEntries, kNumFrames));
  double best = -std::numeric_limits<double>::infinity();
  std::vector<int64_t> frames;
  for (int64_t path = 0; path < num_paths; ++path) {
    Labelling collapsed;
    std::vector<int64_t> firsts;
    double score = 0.0;
    int64_t last = 0;
    for (int64_t frame = 0, rest = path; frame < kNumFrames; ++frame, rest /= kNumEntries) {
      const int64_t entry = rest % kNumEntries;
      score += test::log_probability(logits, kNumEntries, frame, entry);
      if (entry != 0 && entry != last) {
        collapsed.push_back(static_cast<int32_t>(entry));
        firsts.push_back(frame);
      }
      last = entry;
    }
    if (collapsed != labels || score <= best) continue;
    best = score;
    frames = firsts;
  }
  return frames;
}

TEST(CtcPrefixes, AlignLabelsByTheBestPath) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const std::vector<float> logits = test::draw_logits(kNumFrames, kNumEntries, seed);
    const Scores scores(logits);
    const CtcPrefixes& prefixes = scores.prefixes;
    for (const Labelling& labels : {Labelling{1}, Labelling{1, 1}, Labelling{3, 2, 1},
                                    Labelling{2, 2, 2}, Labelling{1, 2, 3, 1, 2}})
      EXPECT_EQ(prefixes.align(labels), best_path(logits, labels)) << seed;
    EXPECT_TRUE(prefixes.align(Labelling{1, 1, 1, 1}).empty());
    EXPECT_TRUE(prefixes.align(Labelling{}).empty());
  }
}

}  // namespace
}  // namespace sotto::decode
