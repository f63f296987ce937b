// Windows of a long recording, decoded by scripts: tokens below 1000 are text, those from 1000 on
// are timestamps of 20 ms, two frames.
#include "sotto/decode/long_recording.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sotto/core/rng.h"

namespace sotto::decode::long_recording_test {
namespace {

using Tokens = std::vector<int32_t>;
using Said = std::vector<Tokens>;

constexpr int32_t kFirstTimestamp = 1000;

int32_t stamp(double seconds) {
  return kFirstTimestamp + static_cast<int32_t>(std::lround(seconds / 0.02));
}

LongRecordingOptions recording_of(double seconds, bool uses_previous_text = false) {
  return {.num_frames = std::lround(seconds * 100.0),
          .first_timestamp = kFirstTimestamp,
          .uses_previous_text = uses_previous_text};
}

// What the windows of a recording were, and what is answered to each in turn.
struct Script {
  std::vector<WindowTokens> answers;
  std::vector<int64_t> first_frames = {};
  std::vector<int64_t> lengths = {};
  Said previous = {};

  std::vector<SegmentTokens> run(const LongRecordingOptions& options) {
    return find_segments(options, [&](const RecordingWindow& window) {
      first_frames.push_back(window.first_frame);
      lengths.push_back(window.num_frames);
      previous.emplace_back(window.previous.begin(), window.previous.end());
      EXPECT_LE(first_frames.size(), answers.size());
      return first_frames.size() <= answers.size() ? answers[first_frames.size() - 1]
                                                   : WindowTokens{.is_silent = true};
    });
  }
};

Said tokens_of(const std::vector<SegmentTokens>& segments) {
  Said said;
  for (const SegmentTokens& segment : segments) said.push_back(segment.tokens);
  return said;
}

TEST(LongRecording, ContinuesAtTheLastCompleteSegment) {
  Script script{
      .answers = {{.tokens = {stamp(0), 1, 2, stamp(12), stamp(14), 3, stamp(25.5), stamp(26), 4}},
                  {.tokens = {stamp(0.5), 4, 5, stamp(9)}}}};
  const std::vector<SegmentTokens> segments = script.run(recording_of(40.0));
  EXPECT_EQ(script.first_frames, (std::vector<int64_t>{0, 2550}));
  EXPECT_EQ(script.lengths, (std::vector<int64_t>{3000, 1450}));
  EXPECT_EQ(tokens_of(segments), (Said{{stamp(0), 1, 2, stamp(12)},
                                       {stamp(14), 3, stamp(25.5)},
                                       {stamp(0.5), 4, 5, stamp(9)}}));
  EXPECT_NEAR(segments[1].start_s, 14.0, 1e-9);
  EXPECT_NEAR(segments[1].end_s, 25.5, 1e-9);
  // Without a second pair, the window is one segment, from its beginning.
  EXPECT_NEAR(segments[2].start_s, 25.5, 1e-9);
  EXPECT_NEAR(segments[2].end_s, 34.5, 1e-9);
}

TEST(LongRecording, GoesOnAfterTheWindowWhereASingleTimestampEndsIt) {
  Script script{
      .answers = {{.tokens = {stamp(0), 1, stamp(5), stamp(6), 2, stamp(20)}}, {.tokens = {3}}}};
  const std::vector<SegmentTokens> segments = script.run(recording_of(45.0));
  EXPECT_EQ(script.first_frames, (std::vector<int64_t>{0, 3000}));
  EXPECT_EQ(tokens_of(segments), (Said{{stamp(0), 1, stamp(5)}, {stamp(6), 2, stamp(20)}, {3}}));
  EXPECT_NEAR(segments[2].start_s, 30.0, 1e-9);
  EXPECT_NEAR(segments[2].end_s, 45.0, 1e-9) << "no timestamp: the window";
}

TEST(LongRecording, SkipsSilenceAndEmptyWindows) {
  Script script{.answers = {{.tokens = {1}, .is_silent = true}, {.tokens = {}}, {.tokens = {2}}}};
  EXPECT_EQ(tokens_of(script.run(recording_of(75.0))), Said{{2}});
  EXPECT_EQ(script.first_frames, (std::vector<int64_t>{0, 3000, 6000}));
}

TEST(LongRecording, AlwaysEnds) {
  // A pair at the beginning of the window: no frame was spoken.
  Script script{.answers = std::vector<WindowTokens>(2, {.tokens = {stamp(0), stamp(0), 1}})};
  script.run(recording_of(50.0));
  EXPECT_EQ(script.first_frames, (std::vector<int64_t>{0, 3000}));
  Script empty{.answers = {}};
  EXPECT_TRUE(empty.run(recording_of(0.0)).empty());
}

TEST(LongRecording, GivesEachWindowTheEndOfTheTextBefore) {
  LongRecordingOptions options = recording_of(120.0, /*uses_previous_text=*/true);
  options.max_previous_tokens = 4;
  Script script{.answers = {{.tokens = {stamp(0), 1, stamp(30)}},
                            {.tokens = {stamp(0), 2, 3, stamp(28), stamp(28), 9}},
                            {.tokens = {stamp(0), 4, stamp(30)}, .temperature = 0.6},
                            {.tokens = {stamp(0), 5, stamp(30)}},
                            {.tokens = {6}}}};
  script.run(options);
  EXPECT_EQ(script.previous, (Said{{},
                                   {stamp(0), 1, stamp(30)},
                                   {stamp(0), 2, 3, stamp(28)},
                                   {},
                                   {stamp(30), stamp(0), 5, stamp(30)}}))
      << "not what was drawn at a high temperature, nor what was cut off";
  options.uses_previous_text = false;
  Script alone{.answers = script.answers};
  alone.run(options);
  EXPECT_EQ(alone.previous, Said(5));
}

TEST(LongRecording, MovesTimesOfTokensToTheRecording) {
  Script script{.answers = {{.tokens = {1}},
                            {.tokens = {stamp(0), 2, stamp(1), stamp(1), 3},
                             .times = {{0, 0}, {0.25, 0.5}, {1, 1}, {1, 1}, {2, 3}}},
                            {.tokens = {}}}};
  const std::vector<SegmentTokens> segments = script.run(recording_of(60.0));
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_TRUE(segments[0].times.empty());
  ASSERT_EQ(segments[1].times.size(), 3u);
  EXPECT_NEAR(segments[1].times[1].start_s, 30.25, 1e-9);
  EXPECT_NEAR(segments[1].times[1].end_s, 30.5, 1e-9);
}

// Sentences of 1 to 12 s with pauses, heard rightly: those that end within a window are complete,
// the one after them is cut off.
TEST(LongRecording, LosesNoSentenceAndRepeatsNone) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const RandomStream stream({.seed = seed}, {});
    struct Sentence {
      int64_t begin, end;  // timestamps
    };
    std::vector<Sentence> sentences;
    int64_t now = 0;
    for (uint64_t i = 0; i < 40; ++i) {
      now += static_cast<int64_t>(50.0f * stream.uniform(2 * i));
      sentences.push_back(
          {now, now + 50 + static_cast<int64_t>(550.0f * stream.uniform(2 * i + 1))});
      now = sentences.back().end;
    }
    const LongRecordingOptions options = recording_of(0.02 * static_cast<double>(now));
    const auto hear = [&](const RecordingWindow& window) {
      WindowTokens heard;
      const int64_t first = window.first_frame / 2;
      const int64_t end = first + window.num_frames / 2;
      for (size_t i = 0; i < sentences.size(); ++i) {
        const auto add = [&](int64_t token) {
          heard.tokens.push_back(static_cast<int32_t>(token));
        };
        if (sentences[i].begin < first || sentences[i].begin >= end) continue;
        add(kFirstTimestamp + sentences[i].begin - first);
        add(static_cast<int64_t>(i));
        if (sentences[i].end > end) break;
        add(kFirstTimestamp + sentences[i].end - first);
      }
      return heard;
    };
    const std::vector<SegmentTokens> segments = find_segments(options, hear);
    Tokens said;
    for (const SegmentTokens& segment : segments)
      for (const int32_t token : segment.tokens)
        if (token < kFirstTimestamp) said.push_back(token);
    ASSERT_EQ(said.size(), sentences.size()) << seed;
    for (size_t i = 0; i < said.size(); ++i) EXPECT_EQ(said[i], static_cast<int32_t>(i)) << seed;
    for (size_t i = 0; i < segments.size(); ++i)
      EXPECT_NEAR(segments[i].end_s, 0.02 * static_cast<double>(sentences[i].end), 1e-6) << seed;
  }
}

}  // namespace
}  // namespace sotto::decode::long_recording_test
