// Which tokens may follow, for a vocabulary of ten texts (0 to 9), the end (10), a start (11), no
// timestamps (12), and the timestamps <|0.00|> (13) to <|0.12|> (19).
#include "sotto/decode/whisper_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace sotto::decode::whisper_rules_test {
namespace {

constexpr int32_t kTextEnd = 10, kNoTimestamps = 12, kFirst = 13, kSize = 20;
const std::set<int32_t> kTexts = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

std::set<int32_t> range(int32_t begin, int32_t end) {
  std::set<int32_t> entries;
  for (int32_t entry = begin; entry < end; ++entry) entries.insert(entry);
  return entries;
}

std::set<int32_t> joined(std::set<int32_t> a, const std::set<int32_t>& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// Text is likelier than all timestamps together, unless said otherwise.
std::vector<float> text_is_likely(float timestamps = 0.001f) {
  std::vector<float> scores(kSize, std::log(0.05f));
  for (int32_t token = kFirst; token < kSize; ++token)
    scores[static_cast<size_t>(token)] = std::log(timestamps);
  return scores;
}

std::set<int32_t> allowed(const WhisperRules& rules, const std::vector<int32_t>& tokens,
                          std::vector<float> scores = text_is_likely()) {
  const std::vector<float> before = scores;
  rules.apply(tokens, scores);
  std::set<int32_t> left;
  for (int32_t token = 0; token < kSize; ++token) {
    const float score = scores[static_cast<size_t>(token)];
    if (score == -std::numeric_limits<float>::infinity()) continue;
    EXPECT_EQ(score, before[static_cast<size_t>(token)]) << "rules only exclude";
    left.insert(token);
  }
  return left;
}

WhisperRules with_timestamps(std::optional<int32_t> max_initial_index = std::nullopt) {
  return WhisperRules(
      {.timestamps = TimestampRules{
           .first_timestamp = kFirst, .end = kTextEnd, .max_initial_index = max_initial_index}});
}

TEST(WhisperRules, ExcludeSuppressedTokensEverywhere) {
  const WhisperRules rules({.suppressed = {3, 12, -1, 99}, .suppressed_first = {5, 10}});
  std::set<int32_t> later = range(0, kSize);
  later.erase(3);
  later.erase(12);
  EXPECT_EQ(allowed(rules, {1}), later);
  later.erase(5);
  later.erase(10);
  EXPECT_EQ(allowed(rules, {}), later) << "the first";
}

TEST(WhisperRules, BeginWithATimestampThatIsNotTooLate) {
  EXPECT_EQ(allowed(with_timestamps(), {}), range(kFirst, kSize));
  EXPECT_EQ(allowed(with_timestamps(2), {}), range(kFirst, kFirst + 3));
}

TEST(WhisperRules, PutTextAfterTheTimestampThatBeginsASegment) {
  const std::set<int32_t> no_timestamp = range(0, kNoTimestamps);
  EXPECT_EQ(allowed(with_timestamps(), {kFirst}), no_timestamp);
  EXPECT_EQ(allowed(with_timestamps(), {kFirst, 1, kFirst + 2, kFirst + 2}), no_timestamp);
}

TEST(WhisperRules, PutATimestampOrTheEndAfterTheTimestampThatEndsASegment) {
  // The next segment may begin where this one ended.
  EXPECT_EQ(allowed(with_timestamps(), {kFirst, 1, kFirst + 2}),
            joined({kTextEnd, kTextEnd + 1}, range(kFirst + 2, kSize)));
}

TEST(WhisperRules, LetASegmentTakeSomeTime) {
  EXPECT_EQ(allowed(with_timestamps(), {kFirst + 2, 1}),
            joined(range(0, kNoTimestamps), range(kFirst + 3, kSize)));
  EXPECT_EQ(allowed(with_timestamps(), {kFirst, 1, kFirst + 2, kFirst + 4, 7}),
            joined(range(0, kNoTimestamps), range(kFirst + 5, kSize)));
}

TEST(WhisperRules, WriteATimestampWhereAllTogetherAreTheLikeliest) {
  // Seven timestamps of 0.008 are more than a text of 0.05, five are not.
  const std::vector<float> scores = text_is_likely(0.008f);
  EXPECT_EQ(allowed(with_timestamps(), {kFirst, 1}, scores),
            joined(kTexts, joined({10, 11}, range(kFirst + 1, kSize))))
      << "six of them: 0.048";
  const std::vector<float> likelier = text_is_likely(0.009f);
  EXPECT_EQ(allowed(with_timestamps(), {kFirst, 1}, likelier), range(kFirst + 1, kSize));
  EXPECT_EQ(allowed(with_timestamps(), {kFirst + 2, 1}, likelier),
            joined(range(0, kNoTimestamps), range(kFirst + 3, kSize)))
      << "four of them: 0.036";
}

TEST(WhisperRules, WithoutTimestampsLeaveThemAlone) {
  EXPECT_EQ(allowed(WhisperRules({}), {}), range(0, kSize));
}

}  // namespace
}  // namespace sotto::decode::whisper_rules_test
