#include "sotto/nn/fronts/spec_augment.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

namespace sotto::nn {
namespace {

using kernels::Packing;

// Runs of zeros in a vector of zeros and ones.
std::vector<int64_t> bands_of(const at::Tensor& seen) {
  std::vector<int64_t> bands;
  bool is_inside = false;
  for (int64_t i = 0; i < seen.numel(); ++i) {
    const bool is_hidden = seen[i].item<float>() == 0.0f;
    if (is_hidden && !is_inside) bands.push_back(0);
    if (is_hidden) ++bands.back();
    is_inside = is_hidden;
  }
  return bands;
}

// What is left of ones [length, 12] of one utterance in a step.
at::Tensor masked(const SpecAugmentOptions& options, int64_t length, uint64_t step,
                  uint64_t utterance = 7) {
  const Packing packing({length}, at::kCPU, {{.utterance = utterance}});
  at::Tensor features = at::ones({length, 12});
  SpecAugment::apply(features, {.step = {.seed = 3, .step = step}, .packing = packing}, options);
  return features;
}

TEST(SpecAugment, HidesFrameBandsOfEveryWidthAtEveryPosition) {
  std::set<int64_t> widths, hidden;
  for (uint64_t step = 0; step < 300; ++step) {
    const at::Tensor features = masked({.time_masks = 1, .time_width = 5}, 20, step);
    // A frame is hidden whole, or not.
    EXPECT_TRUE(at::equal(features.amin(1), features.amax(1)));
    const std::vector<int64_t> bands = bands_of(features.select(1, 0));
    ASSERT_LE(bands.size(), 1u);
    widths.insert(bands.empty() ? 0 : bands.front());
    for (int64_t frame = 0; frame < 20; ++frame) {
      if (features[frame][0].item<float>() == 0.0f) hidden.insert(frame);
    }
  }
  EXPECT_EQ(widths, (std::set<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(hidden.size(), 20u);
}

TEST(SpecAugment, HidesFeatureBandsOfEveryWidthAtEveryPosition) {
  std::set<int64_t> widths, hidden;
  for (uint64_t step = 0; step < 300; ++step) {
    const at::Tensor features = masked({.frequency_masks = 1, .frequency_width = 4}, 6, step);
    EXPECT_TRUE(at::equal(features.amin(0), features.amax(0)));
    const std::vector<int64_t> bands = bands_of(features[0]);
    ASSERT_LE(bands.size(), 1u);
    widths.insert(bands.empty() ? 0 : bands.front());
    for (int64_t column = 0; column < 12; ++column) {
      if (features[0][column].item<float>() == 0.0f) hidden.insert(column);
    }
  }
  EXPECT_EQ(widths, (std::set<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(hidden.size(), 12u);
}

TEST(SpecAugment, HidesTheConfiguredNumberOfBands) {
  size_t most = 0;
  for (uint64_t step = 0; step < 300; ++step) {
    most = std::max(
        most, bands_of(masked({.time_masks = 3, .time_width = 4}, 100, step).select(1, 0)).size());
  }
  EXPECT_EQ(most, 3u);
}

TEST(SpecAugment, MasksAtMostItsShareOfAnUtterance) {
  int64_t widest = 0;
  for (uint64_t step = 0; step < 300; ++step) {
    const at::Tensor seen =
        masked({.time_masks = 1, .time_width = 100, .time_share = 0.3}, 20, step).select(1, 0);
    for (const int64_t band : bands_of(seen)) widest = std::max(widest, band);
  }
  EXPECT_EQ(widest, 6);
  // An utterance shorter than a band may go whole, and no further.
  widest = 0;
  for (uint64_t step = 0; step < 300; ++step) {
    for (const int64_t band : bands_of(masked({.time_masks = 1}, 4, step).select(1, 0)))
      widest = std::max(widest, band);
  }
  EXPECT_EQ(widest, 4);
}

TEST(SpecAugment, DependsOnTheUtteranceNotItsPosition) {
  const SpecAugmentOptions options{
      .frequency_masks = 2, .frequency_width = 4, .time_masks = 2, .time_width = 9};
  const Packing packing({15, 30, 9}, at::kCPU, {{.utterance = 1}, {.utterance = 7}, {}});
  at::Tensor features = at::ones({54, 12});
  SpecAugment::apply(features, {.step = {.seed = 3, .step = 40}, .packing = packing}, options);
  EXPECT_TRUE(at::equal(features.narrow(0, 15, 30), masked(options, 30, 40)));
  EXPECT_TRUE(at::equal(features.narrow(0, 0, 15), masked(options, 15, 40, 1)));
  EXPECT_FALSE(at::equal(masked(options, 30, 40), masked(options, 30, 40, 1)));
  EXPECT_FALSE(at::equal(masked(options, 30, 40), masked(options, 30, 41)));
}

TEST(SpecAugment, DoesNothingInEvaluationOrWithoutMasks) {
  const Packing packing({30}, at::kCPU);
  at::Tensor features = at::ones({30, 12});
  SpecAugment::apply(features, {.step = {.is_training = false}, .packing = packing},
                     {.frequency_masks = 5, .frequency_width = 11, .time_masks = 5});
  EXPECT_EQ(features.min().item<float>(), 1.0f);
  SpecAugment::apply(features, {.step = {}, .packing = packing}, {});
  EXPECT_EQ(features.min().item<float>(), 1.0f);
}

}  // namespace
}  // namespace sotto::nn
