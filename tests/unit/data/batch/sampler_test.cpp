#include "sotto/data/batch/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;

using Steps = std::vector<std::vector<int64_t>>;

Steps steps_of(const Sampler& sampler, int64_t epoch) {
  const EpochOrder order = sampler.epoch(epoch);
  Steps steps;
  for (int64_t step = 0; step < order.num_steps(); ++step) {
    const std::span<const uint32_t> utterances = order.utterances(step);
    steps.emplace_back(utterances.begin(), utterances.end());
  }
  return steps;
}

// 0.5 to 20 s, as speech corpora have them.
std::vector<float> durations_of(int64_t count) {
  const RandomStream stream({.seed = 9});
  std::vector<float> durations;
  for (int64_t i = 0; i < count; ++i)
    durations.push_back(0.5f + 19.5f * stream.uniform(static_cast<uint64_t>(i)));
  return durations;
}

double seconds_of(const std::vector<int64_t>& step, const std::vector<float>& durations) {
  double sum = 0.0;
  for (const int64_t index : step) sum += double{durations[static_cast<size_t>(index)]};
  return sum;
}

std::vector<SamplerOptions> both_kinds() {
  return {{.seed = 3, .batch = EffectiveBatch::parse("8")},
          {.seed = 3, .batch = EffectiveBatch::parse("90s")}};
}

// Every curriculum with both kinds of batch.
std::vector<SamplerOptions> all_samplers() {
  std::vector<SamplerOptions> all;
  for (SamplerOptions options : both_kinds()) {
    for (const auto& [name, curriculum] : kCurricula) {
      options.curriculum = curriculum;
      all.push_back(options);
    }
  }
  return all;
}

TEST(Sampler, TakesEveryUtteranceOncePerEpoch) {
  for (const SamplerOptions& options : all_samplers()) {
    for (const int64_t count : {1, 2, 7, 8, 9, 100, 1'001}) {
      const Sampler sampler(options, durations_of(count));
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<int64_t> all;
        for (const std::vector<int64_t>& step : steps_of(sampler, epoch)) {
          EXPECT_FALSE(step.empty());
          all.insert(all.end(), step.begin(), step.end());
        }
        std::ranges::sort(all);
        std::vector<int64_t> expected(static_cast<size_t>(count));
        std::iota(expected.begin(), expected.end(), 0);
        EXPECT_EQ(all, expected);
      }
    }
  }
}

TEST(Sampler, StepsHaveABatchOfUtterancesAndTheLastTheRest) {
  const Steps steps = steps_of(Sampler(both_kinds()[0], durations_of(100)), 0);
  ASSERT_EQ(steps.size(), 13u);
  for (size_t i = 0; i + 1 < steps.size(); ++i) EXPECT_EQ(steps[i].size(), 8u);
  EXPECT_EQ(steps.back().size(), 4u);
}

TEST(Sampler, StepsHaveAboutABatchOfSeconds) {
  const std::vector<float> durations = durations_of(2'000);
  const Steps steps = steps_of(Sampler(both_kinds()[1], durations), 0);
  double sum = 0.0;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const double seconds = seconds_of(steps[i], durations);
    EXPECT_LE(std::abs(seconds - 90.0), 10.0);  // half of the longest utterance
    sum += seconds;
  }
  EXPECT_NEAR(sum / static_cast<double>(steps.size() - 1), 90.0, 1.0);
}

TEST(Sampler, UtteranceLongerThanTheBatchIsAStep) {
  const Sampler sampler({.batch = EffectiveBatch::parse("10s"), .curriculum = Curriculum::kListed},
                        {40.0, 4.0, 5.0, 40.0, 3.0});
  EXPECT_EQ(steps_of(sampler, 0), (Steps{{0}, {1, 2}, {3}, {4}}));
}

TEST(Sampler, OrderDependsOnlyOnSeedAndEpoch) {
  for (const SamplerOptions& options : all_samplers()) {
    const Sampler sampler(options, durations_of(60));
    const Steps steps = steps_of(sampler, 5);
    EXPECT_EQ(steps_of(sampler, 5), steps);
    EXPECT_EQ(steps_of(Sampler(options, durations_of(60)), 5), steps);
    if (options.curriculum == Curriculum::kSorted) {
      EXPECT_EQ(steps_of(sampler, 6), steps);
      continue;
    }
    EXPECT_NE(steps_of(sampler, 6), steps);
    SamplerOptions other = options;
    other.seed = 4;
    EXPECT_NE(steps_of(Sampler(other, durations_of(60)), 5), steps);
  }
}

// A changed shuffle would silently change every run: the order must be that of the first version.
TEST(Sampler, OrderIsDrawnWithTheShufflePurpose) {
  const Sampler sampler({.seed = 1, .batch = EffectiveBatch::parse("4")}, durations_of(10));
  const std::vector<int64_t> order =
      RandomStream({.seed = 1, .purpose = Purpose::kShuffle, .step = 3}).permutation(10);
  const Steps steps = steps_of(sampler, 3);
  EXPECT_EQ(steps, (Steps{{order.begin(), order.begin() + 4},
                          {order.begin() + 4, order.begin() + 8},
                          {order.begin() + 8, order.end()}}));
}

TEST(Sampler, KeepsTheOrderWithoutShuffle) {
  const Sampler sampler({.batch = EffectiveBatch::parse("2"), .curriculum = Curriculum::kListed},
                        {1, 1, 1});
  for (const int64_t epoch : {0, 1}) EXPECT_EQ(steps_of(sampler, epoch), (Steps{{0, 1}, {2}}));
}

TEST(Sampler, SortedStartsWithTheShortest) {
  const Sampler sampler({.batch = EffectiveBatch::parse("2"), .curriculum = Curriculum::kSorted},
                        {3, 1, 2, 1});
  EXPECT_EQ(steps_of(sampler, 7), (Steps{{1, 3}, {2, 0}}));
}

TEST(Sampler, BucketedStepsHaveSimilarLengthsInRandomOrder) {
  const std::vector<float> durations = durations_of(4'000);
  const Sampler sampler(
      {.seed = 2, .batch = EffectiveBatch::parse("8"), .curriculum = Curriculum::kBucketed},
      durations);
  const Steps steps = steps_of(sampler, 0);
  int64_t num_mixed = 0;
  std::vector<double> means;
  for (const std::vector<int64_t>& step : steps) {
    float shortest = 1e9f, longest = 0.0f;
    for (const int64_t index : step) {
      shortest = std::min(shortest, durations[static_cast<size_t>(index)]);
      longest = std::max(longest, durations[static_cast<size_t>(index)]);
    }
    // A step between two buckets has some of each.
    if (longest > 1.1f * shortest) ++num_mixed;
    means.push_back(seconds_of(step, durations) / static_cast<double>(step.size()));
  }
  EXPECT_LT(num_mixed, 45);  // one for each edge of a bucket, of which there are 39
  EXPECT_FALSE(std::ranges::is_sorted(means));
  EXPECT_NE(steps_of(sampler, 1), steps);
}

TEST(Sampler, RanksShareTheStepAboutEqually) {
  for (const SamplerOptions& options : all_samplers()) {
    const std::vector<float> durations = durations_of(333);
    const Sampler sampler(options, durations);
    const EpochOrder order = sampler.epoch(1);
    for (const int64_t ranks : {1, 2, 3, 8}) {
      for (int64_t step = 0; step < order.num_steps(); ++step) {
        const std::span<const uint32_t> whole = order.utterances(step);
        std::vector<uint32_t> all;
        std::vector<double> seconds;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const std::vector<uint32_t> part = sampler.part(whole, {.number = rank, .count = ranks});
          if (ranks == 1) {
            EXPECT_TRUE(std::ranges::equal(part, whole));
          }
          all.insert(all.end(), part.begin(), part.end());
          seconds.push_back(seconds_of({part.begin(), part.end()}, durations));
        }
        EXPECT_TRUE(std::ranges::is_permutation(all, whole));
        const auto [least, most] = std::ranges::minmax(seconds);
        EXPECT_LE(most - least, 20.0);  // the longest utterance
      }
    }
  }
}

// Only the position is needed to resume.
TEST(Sampler, CanSeekToAnyStep) {
  for (const SamplerOptions& options : all_samplers()) {
    const Steps steps = steps_of(Sampler(options, durations_of(200)), 4);
    const EpochOrder order = Sampler(options, durations_of(200)).epoch(4);
    for (const size_t step : {steps.size() - 1, steps.size() / 2}) {
      EXPECT_TRUE(std::ranges::equal(order.utterances(static_cast<int64_t>(step)), steps[step]));
    }
  }
}

TEST(Sampler, RefusesStepOutOfRange) {
  const EpochOrder order = Sampler({}, {1.0}).epoch(0);
  EXPECT_EQ(order.num_steps(), 1);
  EXPECT_THROW(order.utterances(1), InternalError);
  EXPECT_THROW(order.utterances(-1), InternalError);
  EXPECT_THROW(Sampler({}, {}), InternalError);
}

TEST(EffectiveBatch, RoundTripsThroughText) {
  for (const char* text : {"1", "32", "120s", "0.25s", "90000s"})
    EXPECT_EQ(EffectiveBatch::parse(text).to_string(), text);
  EXPECT_EQ(EffectiveBatch::parse("2min").to_string(), "120s");
  EXPECT_EQ(EffectiveBatch::parse("1h30min").seconds, 5'400.0);
  for (const double seconds : {0.1, 1.0 / 3.0, 1e-4, 123'456.789, 1e7}) {
    const EffectiveBatch batch{.kind = EffectiveBatch::Kind::kSeconds, .seconds = seconds};
    EXPECT_EQ(EffectiveBatch::parse(batch.to_string()), batch) << batch.to_string();
  }
  EXPECT_EQ(EffectiveBatch{}.to_string(), "32");
}

TEST(EffectiveBatch, RefusesInvalidText) {
  const auto refusal = [](const char* text) {
    return message_of<ConfigError>([&] { EffectiveBatch::parse(text); });
  };
  EXPECT_EQ(refusal("0"),
            "reading the effective batch '0': it is not at least 1. Expected a number of "
            "utterances of at least 1, such as 32, or seconds of audio, such as 120s or 2min.");
  EXPECT_PRED2(contains, refusal("-3"), "it is not at least 1");
  EXPECT_PRED2(contains, refusal("0s"), "it is zero");
  for (const char* text : {"", "many", "3.5", "12 cows", "-4s", "1e3"})
    EXPECT_PRED2(contains, refusal(text), "neither a whole number nor a duration");
}

std::vector<int64_t> samples_of(SamplerOptions options, int64_t count, int64_t epoch = 0) {
  options.num_samples = count;
  std::vector<int64_t> all;
  for (const std::vector<int64_t>& step : steps_of(Sampler(options, durations_of(100)), epoch))
    all.insert(all.end(), step.begin(), step.end());
  return all;
}

// Whatever the curriculum: it orders the samples and does not choose them.
TEST(Sampler, FewerSamplesAreAPartOfMore) {
  for (SamplerOptions options : all_samplers()) {
    for (const uint64_t seed : {0, 1, 2, 77}) {
      options.seed = seed;
      std::vector<int64_t> before;
      for (const int64_t count : {1, 7, 25, 26, 50, 99, 100}) {
        std::vector<int64_t> samples = samples_of(options, count);
        EXPECT_EQ(std::ssize(samples), count);
        std::ranges::sort(samples);
        EXPECT_TRUE(std::ranges::includes(samples, before)) << seed << " " << count;
        // Those of every epoch.
        std::vector<int64_t> later = samples_of(options, count, 5);
        std::ranges::sort(later);
        EXPECT_EQ(later, samples);
        before = samples;
      }
    }
  }
}

TEST(Sampler, SamplesDependOnTheSeedAndAreSpreadOverTheList) {
  const std::vector<int64_t> first = samples_of({.seed = 1}, 25);
  EXPECT_NE(first, samples_of({.seed = 2}, 25));
  const int64_t sum = std::accumulate(first.begin(), first.end(), int64_t{0});
  EXPECT_GT(sum, 25 * 30);
  EXPECT_LT(sum, 25 * 70);
}

TEST(Sampler, AllSamplesAreInTheUsualOrder) {
  for (const SamplerOptions& options : all_samplers())
    for (const int64_t count : {100, 5'000})
      EXPECT_EQ(samples_of(options, count, 3), samples_of(options, 0, 3));
}

}  // namespace
}  // namespace sotto::data
