#include "sotto/data/batch/step_packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sotto/core/rng.h"
#include "sotto/data/batch/sampler.h"
#include "support/librispeech.h"

namespace sotto::data {
namespace {

using MicroBatches = std::vector<std::vector<int64_t>>;

std::vector<ItemSize> random_sizes(uint64_t seed, int64_t count) {
  const RandomStream stream({.seed = seed});
  std::vector<ItemSize> sizes;
  for (int64_t i = 0; i < count; ++i) {
    const auto n = static_cast<uint64_t>(i);
    sizes.push_back(
        {.frames = 1 + stream.bits(2 * n) % 2'000, .labels = stream.bits(2 * n + 1) % 300});
  }
  return sizes;
}

// Seconds of rectangles of 32 utterances, each as long as its longest.
double padded(const std::vector<double>& seconds) {
  double sum = 0.0;
  for (size_t begin = 0; begin < seconds.size(); begin += 32) {
    const size_t end = std::min(begin + 32, seconds.size());
    const double longest = *std::max_element(seconds.begin() + static_cast<std::ptrdiff_t>(begin),
                                             seconds.begin() + static_cast<std::ptrdiff_t>(end));
    sum += longest * static_cast<double>(end - begin);
  }
  return sum;
}

TEST(PackStep, IsOneMicroBatchWithoutLimits) {
  const StepPacking packing = pack_step(random_sizes(1, 20), {});
  ASSERT_EQ(packing.micro_batches.size(), 1u);
  EXPECT_TRUE(std::ranges::is_sorted(packing.micro_batches[0]));
  EXPECT_EQ(packing.micro_batches[0].size(), 20u);
  EXPECT_TRUE(packing.too_large.empty());
  EXPECT_TRUE(pack_step({}, {}).micro_batches.empty());
}

TEST(PackStep, RespectsEveryLimitAndKeepsEveryUtterance) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<ItemSize> sizes = random_sizes(seed, 1 + static_cast<int64_t>(seed) * 3);
    const MicroBatchLimits limits{.max_frames = 1'500 + 100 * static_cast<int64_t>(seed),
                                  .max_labels = 250 + 5 * static_cast<int64_t>(seed),
                                  .max_utterances = 1 + static_cast<int64_t>(seed) % 9};
    const StepPacking packing = pack_step(sizes, limits);
    std::vector<int64_t> all = packing.too_large;
    for (const std::vector<int64_t>& micro_batch : packing.micro_batches) {
      int64_t frames = 0, labels = 0;
      for (const int64_t index : micro_batch) {
        frames += sizes[static_cast<size_t>(index)].frames;
        labels += sizes[static_cast<size_t>(index)].labels;
        all.push_back(index);
      }
      EXPECT_LE(frames, limits.max_frames);
      EXPECT_LE(labels, limits.max_labels);
      EXPECT_LE(static_cast<int64_t>(micro_batch.size()), limits.max_utterances);
      EXPECT_FALSE(micro_batch.empty());
    }
    for (const int64_t index : packing.too_large) {
      const ItemSize& size = sizes[static_cast<size_t>(index)];
      EXPECT_TRUE(size.frames > limits.max_frames || size.labels > limits.max_labels);
    }
    std::ranges::sort(all);
    ASSERT_EQ(all.size(), sizes.size());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<int64_t>(i));
    EXPECT_EQ(pack_step(sizes, limits).micro_batches, packing.micro_batches);
  }
}

// In the original order these would need four.
TEST(PackStep, FindsFewMicroBatches) {
  const std::vector<ItemSize> sizes = {{.frames = 3}, {.frames = 6}, {.frames = 7},
                                       {.frames = 4}, {.frames = 4}, {.frames = 6}};
  const StepPacking packing = pack_step(sizes, {.max_frames = 10});
  EXPECT_EQ(packing.micro_batches, (MicroBatches{{0, 2}, {1, 3}, {4, 5}}));
}

TEST(PackStep, MicroBatchesAreAboutEquallyLong) {
  const std::vector<ItemSize> sizes = random_sizes(3, 60);
  const StepPacking packing = pack_step(sizes, {.max_frames = 15'000});
  std::vector<int64_t> frames;
  for (const std::vector<int64_t>& micro_batch : packing.micro_batches) {
    frames.push_back(0);
    for (const int64_t index : micro_batch)
      frames.back() += sizes[static_cast<size_t>(index)].frames;
  }
  ASSERT_GT(frames.size(), 2u);
  const auto [least, most] = std::ranges::minmax(frames);
  EXPECT_LT(most - least, 400);
}

TEST(PackStep, FixedCountsKeepTheOrder) {
  const std::vector<ItemSize> sizes = {
      {.frames = 2}, {.frames = 9}, {.frames = 5}, {.frames = 1}, {.frames = 30}};
  const StepPacking packing =
      pack_step(sizes, {.max_frames = 3, .max_utterances = 2, .is_adaptive = false});
  EXPECT_EQ(packing.micro_batches, (MicroBatches{{4}, {0, 1}, {2, 3}}));
  EXPECT_TRUE(packing.too_large.empty());
}

// What users of LibriSpeech get: at most 3 % more micro-batches than the seconds of each step need.
TEST(PackStep, IsNearlyFullOnLibriSpeech) {
  const std::vector<float> durations = test::librispeech_seconds();
  if (durations.empty())
    GTEST_SKIP() << "SOTTO_TEST_DATA names no folder with librispeech_durations";
  for (const int64_t batch : {32, 128, 512}) {
    const Sampler sampler({.seed = 1, .batch = {.utterances = batch}}, durations);
    const EpochOrder order = sampler.epoch(0);
    constexpr double kLimitSeconds = 480.0;
    int64_t num_packed = 0, num_needed = 0;
    double padded_s = 0.0, bucketed_s = 0.0, spoken_s = 0.0;
    for (int64_t step = 0; step < order.num_steps(); ++step) {
      std::vector<ItemSize> sizes;
      std::vector<double> seconds;
      for (const uint32_t u : order.utterances(step)) {
        seconds.push_back(double{durations[u]});
        sizes.push_back({.frames = std::llround(1e3 * seconds.back())});
      }
      const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
      spoken_s += sum;
      num_needed += static_cast<int64_t>(std::ceil(sum / kLimitSeconds));
      num_packed += std::ssize(pack_step(sizes, {.max_frames = 480'000}).micro_batches);
      padded_s += padded(seconds);
      std::ranges::sort(seconds);
      bucketed_s += padded(seconds);
    }
    RecordProperty(fmt::format("micro_batches_{}", batch), fmt::format("{}", num_packed));
    fmt::print(
        "effective batch {:3}: {} micro-batches where {} would hold the seconds (+{:.2f} %); "
        "padding in fixed batches of 32 {:.1f} %, sorted by length inside a step {:.1f} %\n",
        batch, num_packed, num_needed,
        100.0 * static_cast<double>(num_packed - num_needed) / static_cast<double>(num_needed),
        100.0 * (padded_s / spoken_s - 1.0), 100.0 * (bucketed_s / spoken_s - 1.0));
    EXPECT_LE(static_cast<double>(num_packed), 1.03 * static_cast<double>(num_needed));
  }
}

TEST(PackStep, IsNearlyMinimalForManyUtterances) {
  const std::vector<ItemSize> sizes = random_sizes(7, 400);
  int64_t frames = 0;
  for (const ItemSize& size : sizes) frames += size.frames;
  const StepPacking packing = pack_step(sizes, {.max_frames = 8'000});
  EXPECT_LE(static_cast<int64_t>(packing.micro_batches.size()), frames / 8'000 + 2);
}

// Sorted by frames, the first pair would leave no room for a second pair by labels.
TEST(PackStep, PacksByLabelsIfThatIsBetter) {
  const std::vector<ItemSize> sizes = {{.frames = 4, .labels = 3},
                                       {.frames = 3, .labels = 6},
                                       {.frames = 2, .labels = 7},
                                       {.frames = 1, .labels = 4}};
  EXPECT_EQ(pack_step(sizes, {.max_labels = 10}).micro_batches.size(), 2u);
}

// Two utterances have room by frames and by labels, but their lattices together do not.
TEST(PackStep, RespectsTheLimitOnNodes) {
  const std::vector<ItemSize> sizes = {{.frames = 4, .labels = 4, .nodes = 20},
                                       {.frames = 4, .labels = 1, .nodes = 8},
                                       {.frames = 3, .labels = 4, .nodes = 15}};
  const MicroBatchLimits limits{.max_frames = 20, .max_labels = 20, .max_nodes = 28};
  EXPECT_EQ(pack_step(sizes, limits).micro_batches.size(), 2u);
  EXPECT_EQ(pack_step(sizes, {.max_nodes = 18}).too_large, (std::vector<int64_t>{0}));
}

TEST(PackStep, LongestComesFirst) {
  const std::vector<ItemSize> sizes = {{.frames = 2}, {.frames = 9}, {.frames = 5}};
  EXPECT_EQ(pack_step(sizes, {.max_utterances = 1}).micro_batches, (MicroBatches{{1}, {2}, {0}}));
}

TEST(PackStep, SetsAsideWhatDoesNotFitAlone) {
  const std::vector<ItemSize> sizes = {
      {.frames = 11}, {.frames = 10}, {.frames = 1, .labels = 5}, {.frames = 1, .labels = 4}};
  const StepPacking packing = pack_step(sizes, {.max_frames = 10, .max_labels = 4});
  EXPECT_EQ(packing.too_large, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(packing.micro_batches, (MicroBatches{{1}, {3}}));
}

}  // namespace
}  // namespace sotto::data
