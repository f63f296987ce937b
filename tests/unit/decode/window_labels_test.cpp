// Labels of overlapping windows become those of the whole recording, word by word.
#include "sotto/decode/window_labels.h"

#include <gtest/gtest.h>

#include "support/checkpoints.h"

namespace sotto::decode {
namespace {

using Frames = std::vector<int64_t>;

class WindowLabelsTest : public ::testing::Test {
 protected:
  // Labels of a text, at these frames.
  Labels at(const std::string& text, const Frames& frames) const {
    const std::vector<int32_t> entries = tokenizer_.encode(text).labels;
    EXPECT_EQ(entries.size(), frames.size());
    Labels labels;
    for (size_t i = 0; i < frames.size(); ++i)
      labels.push_back({.label = entries[i], .frame = frames[i]});
    return labels;
  }
  Labels join(const std::vector<WindowLabels>& windows) const {
    return join_windows(windows, tokenizer_);
  }
  std::string text_of(const Labels& labels) const { return decode::text_of(labels, tokenizer_); }

  data::Tokenizer tokenizer_ = test::tokenizer_of("abcd ");
};

TEST_F(WindowLabelsTest, KeepASpaceThatWindowsPlaceDifferently) {
  // The first window hears the space after the seam, the second one before it.
  const Labels joined = join({{.labels = at("ab c", {80, 90, 101, 105}), .end = 100},
                              {.labels = at("ab c", {0, 5, 9, 15}), .begin = 10, .end = 50}});
  EXPECT_EQ(text_of(joined), "ab c");
  EXPECT_EQ(joined.back().frame, 105);
}

TEST_F(WindowLabelsTest, KeepWordsWhole) {
  const Labels joined = join({{.labels = at("d ab", {50, 60, 99, 103}), .end = 100},
                              {.labels = at("ab c", {9, 12, 20, 25}), .begin = 10, .end = 50}});
  EXPECT_EQ(text_of(joined), "d ab c");
}

TEST_F(WindowLabelsTest, SeparateTheFirstWordOfAWindow) {
  const Labels joined = join({{.labels = at("ab", {10, 20}), .end = 100},
                              {.labels = at("cd", {15, 20}), .begin = 10, .end = 50}});
  EXPECT_EQ(text_of(joined), "ab cd");
  EXPECT_EQ(joined.back().frame, 110);
}

TEST_F(WindowLabelsTest, KeepTheFramesOfOneWindow) {
  // A transducer may emit several words at one frame.
  const Labels joined = join({{.labels = at("a b c", {4, 4, 4, 4, 6}), .end = 100}});
  EXPECT_EQ(text_of(joined), "a b c");
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(joined[i].frame, 4);
  EXPECT_EQ(joined.back().frame, 6);
}

TEST_F(WindowLabelsTest, NeverRunBackwards) {
  const Labels joined = join({{.labels = at("abcd", {97, 102, 104, 108}), .end = 100},
                              {.labels = at("a b", {0, 5, 11}), .begin = 10, .end = 50}});
  EXPECT_EQ(text_of(joined), "abcd b");
  for (size_t i = 1; i < joined.size(); ++i) EXPECT_GE(joined[i].frame, joined[i - 1].frame);
  // The last word begins after the first has ended.
  EXPECT_GT(joined[4].frame, joined[3].frame);
}

}  // namespace
}  // namespace sotto::decode
