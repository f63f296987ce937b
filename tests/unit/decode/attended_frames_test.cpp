// Times of tokens by the attention of a decoder.
#include "sotto/decode/attended_frames.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/core/rng.h"

namespace sotto::decode {
namespace {

using Frames = std::vector<int64_t>;

// The best of all ways to cut the frames into one range per token.
Frames best_cut(const std::vector<float>& weights, int64_t num_frames) {
  const int64_t num_tokens = std::ssize(weights) / num_frames;
  const auto weight = [&](int64_t token, int64_t frame) {
    return double{weights[static_cast<size_t>(token * num_frames + frame)]};
  };
  double best = -std::numeric_limits<double>::infinity();
  Frames frames;
  // A bit per frame after the first: whether the next token begins there.
  for (int64_t cut = 0; cut < int64_t{1} << (num_frames - 1); ++cut) {
    if (__builtin_popcountll(static_cast<uint64_t>(cut)) != num_tokens - 1) continue;
    double score = std::log(weight(0, 0));
    Frames peaks = {0};
    for (int64_t frame = 1; frame < num_frames; ++frame) {
      if ((cut >> (frame - 1) & 1) != 0) peaks.push_back(frame);
      const int64_t token = std::ssize(peaks) - 1;
      score += std::log(weight(token, frame));
      if (weight(token, frame) > weight(token, peaks.back())) peaks.back() = frame;
    }
    if (score <= best) continue;
    best = score;
    frames = peaks;
  }
  return frames;
}

TEST(AttendedFrames, AreTheBestPathForward) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const RandomStream stream({.seed = seed}, {});
    for (const int64_t num_tokens : {1, 2, 4, 8}) {
      std::vector<float> weights;
      for (int64_t i = 0; i < num_tokens * 8; ++i)
        weights.push_back(0.01f + stream.uniform(static_cast<uint64_t>(i)));
      EXPECT_EQ(forward_path(weights, 8), best_cut(weights, 8)) << seed << ", " << num_tokens;
    }
  }
}

TEST(AttendedFrames, OfMoreTokensThanFramesAreSpreadEvenly) {
  EXPECT_EQ(forward_path(std::vector<float>(10, 0.5f), 2), Frames({0, 0, 0, 1, 1}));
  EXPECT_TRUE(forward_path({}, 2).empty());
}

// Attends to frame 2 n + utterance for the n-th token, if it was given the tokens before.
class PointingScorer : public models::Scorer {
 public:
  PointingScorer() : Scorer({9, 6}, 0) {}
  at::Tensor begin(const Limits& limits) override {
    EXPECT_TRUE(limits.records_frames);
    most_steps_ = limits.max_tokens;
    position_ = 0;
    return at::zeros({2, 4});
  }
  at::Tensor step(std::span<const int32_t> tokens) override {
    EXPECT_LT(position_ + 1, most_steps_);
    given_.emplace_back(tokens.begin(), tokens.end());
    ++position_;
    return at::zeros({2, 4});
  }
  void reorder(std::span<const int64_t>) override { FAIL() << "nothing to reorder"; }
  at::Tensor frame_weights() const override {
    at::Tensor weights = at::full({2, 9}, 0.01);
    for (int64_t u = 0; u < 2; ++u) weights[u][std::min<int64_t>(2 * position_ + u, 8)] = 1.0;
    return weights.to(at::kFloat);
  }

  const std::vector<std::vector<int32_t>>& given() const { return given_; }

 private:
  int64_t most_steps_ = 0;
  int64_t position_ = 0;
  std::vector<std::vector<int32_t>> given_;
};

TEST(AttendedFrames, AreReadWhileTheDecoderRepeatsTheTokens) {
  PointingScorer scorer;
  const std::vector<Frames> frames = attended_frames(scorer, {{3, 1, 2}, {2}});
  EXPECT_EQ(frames, (std::vector<Frames>{{0, 2, 4}, {1}}));
  EXPECT_EQ(scorer.given(), (std::vector<std::vector<int32_t>>{{3, 2}, {1, 0}, {2, 0}}));
}

}  // namespace
}  // namespace sotto::decode
