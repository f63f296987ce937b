#include "sotto/data/manifest/segments.h"

#include <gtest/gtest.h>

namespace sotto::data {
namespace {

std::vector<Segment> segments() {
  return {{.offset_s = 0.0, .duration_s = 2.0, .text = "one"},
          {.offset_s = 2.5, .duration_s = 1.5, .text = "two"},
          {.offset_s = 4.0, .duration_s = 3.0, .text = ""},
          {.offset_s = 9.0, .duration_s = 1.0, .text = "four"}};
}

std::vector<uint32_t> counts_of(double max_seconds) {
  std::vector<uint32_t> counts;
  uint32_t next = 0;
  for (const SegmentRun& run : join_segments(segments(), max_seconds)) {
    EXPECT_EQ(run.first, next);
    next += run.count;
    counts.push_back(run.count);
  }
  EXPECT_EQ(next, 4u);
  return counts;
}

TEST(JoinSegments, MakesTheFewestRuns) {
  EXPECT_EQ(counts_of(10.0), (std::vector<uint32_t>{4}));
  EXPECT_EQ(counts_of(9.9), (std::vector<uint32_t>{3, 1}));
  EXPECT_EQ(counts_of(7.0), (std::vector<uint32_t>{3, 1}));
  EXPECT_EQ(counts_of(4.0), (std::vector<uint32_t>{2, 1, 1}));
  EXPECT_EQ(counts_of(3.9), (std::vector<uint32_t>{1, 1, 1, 1}));
  EXPECT_EQ(counts_of(0.1), (std::vector<uint32_t>{1, 1, 1, 1}));
}

TEST(CutUtterance, TakesTheAudioOfTheRun) {
  const Utterance whole{.line = 3,
                        .file = "a.wav",
                        .offset_s = 100.0,
                        .duration_s = 10.0,
                        .text = "all",
                        .speaker = "theo",
                        .segments = segments()};
  const Utterance cut = cut_utterance(whole, {.first = 1, .count = 2});
  EXPECT_EQ(cut.offset_s, 102.5);
  EXPECT_EQ(cut.duration_s, 4.5);
  EXPECT_EQ(cut.text, "two");
  EXPECT_EQ(cut.speaker, "theo");
  EXPECT_EQ(cut.line, 3);
  EXPECT_TRUE(cut.segments.empty());
  EXPECT_EQ(cut_utterance(whole, {.first = 0, .count = 4}).text, "one two four");
}

TEST(CutUtterance, TakesTheFramesOfTheRun) {
  const Utterance whole{.frame_offset = 50,
                        .num_frames = 1000,
                        .feature_dim = 13,
                        .duration_s = 10.0,
                        .segments = segments()};
  const Utterance cut = cut_utterance(whole, {.first = 1, .count = 2});
  EXPECT_EQ(cut.frame_offset, 300);
  EXPECT_EQ(cut.num_frames, 450);
  EXPECT_FALSE(cut.offset_s.has_value());
  // A segment may end a little behind the utterance.
  Utterance rounded = whole;
  rounded.segments.back().duration_s = 1.009;
  const Utterance last = cut_utterance(rounded, {.first = 3, .count = 1});
  EXPECT_EQ(last.frame_offset + last.num_frames, 1050);
}

}  // namespace
}  // namespace sotto::data
