#include "sotto/core/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace sotto {
namespace {

// The known answers published by the authors of Philox with Random123 (philox4x32, 10 rounds).
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, IsAConstantExpression) {
  static_assert(philox({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5);
}

TEST(RandomStream, EveryKeyFieldMatters) {
  const RandomKey key{.seed = 1, .purpose = Purpose::kDropout, .step = 2, .layer = 3};
  std::vector<RandomStream> streams = {
      RandomStream(key, {.utterance = 4}),
      RandomStream({.seed = 9, .purpose = Purpose::kDropout, .step = 2, .layer = 3},
                   {.utterance = 4}),
      RandomStream({.seed = 1, .purpose = Purpose::kShuffle, .step = 2, .layer = 3},
                   {.utterance = 4}),
      RandomStream({.seed = 1, .purpose = Purpose::kDropout, .step = 3, .layer = 2},
                   {.utterance = 4}),
      RandomStream({.seed = 1, .purpose = Purpose::kDropout, .step = 2, .layer = 4},
                   {.utterance = 4}),
      RandomStream({.seed = 1ull << 32, .purpose = Purpose::kDropout, .step = 2, .layer = 3},
                   {.utterance = 4}),
      RandomStream(key, {.utterance = 5}),
      RandomStream(key, {.utterance = 4, .segment = 1}),
      RandomStream(key, {.utterance = 4, .copy = 1}),
      RandomStream(key, {.utterance = 4ull << 32}),
  };
  std::set<uint32_t> firsts;
  for (const RandomStream& stream : streams) firsts.insert(stream.bits(0));
  EXPECT_EQ(firsts.size(), streams.size());
  EXPECT_EQ(RandomStream(key, {.utterance = 4}).bits(77), streams[0].bits(77));
}

TEST(RandomStream, UniformHasItsMeanVarianceAndRange) {
  const RandomStream stream({.seed = 5});
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100'000;
  for (int n = 0; n < kCount; ++n) {
    const float u = stream.uniform(static_cast<uint64_t>(n));
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
    squares += double{u} * u;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.005);
}

TEST(RandomStream, NormalHasItsStatisticsAndTails) {
  const RandomStream stream({.seed = 6});
  double moments[5] = {};
  constexpr int kCount = 100'000;
  double product = 0;
  for (int n = 0; n < kCount; ++n) {
    const double z = stream.normal(static_cast<uint64_t>(n));
    ASSERT_TRUE(std::isfinite(z));
    for (int power = 1; power < 5; ++power) moments[power] += std::pow(z, power) / kCount;
    if (n % 2 == 0) product += z * stream.normal(static_cast<uint64_t>(n) + 1) * 2 / kCount;
  }
  EXPECT_NEAR(moments[1], 0, 0.02);
  EXPECT_NEAR(moments[2], 1, 0.02);
  EXPECT_NEAR(moments[3], 0, 0.05);
  EXPECT_NEAR(moments[4], 3, 0.1);
  EXPECT_NEAR(product, 0, 0.02) << "the two of a pair must be independent";
}

TEST(RandomStream, FillMatchesSingleDraws) {
  const RandomStream stream({.seed = 6});
  std::vector<float> values(23);
  stream.fill_normal(values, 8);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], stream.normal(8 + i));
}

TEST(RandomStream, BernoulliHasItsProbability) {
  const RandomStream stream({.seed = 7});
  int count = 0;
  for (uint64_t n = 0; n < 100'000; ++n) {
    count += stream.bernoulli(n, 0.1) ? 1 : 0;
    ASSERT_FALSE(stream.bernoulli(n, 0.0));
    ASSERT_TRUE(stream.bernoulli(n, 1.0));
  }
  EXPECT_NEAR(count / 1e5, 0.1, 0.004);
}

TEST(RandomStream, PermutationHasEveryElementOnceInAnyOrder) {
  std::vector<int64_t> order = RandomStream({.seed = 8}).permutation(1'000);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 1'000; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);

  std::map<std::vector<int64_t>, int> orders;
  for (uint64_t step = 0; step < 6'000; ++step)
    ++orders[RandomStream({.seed = 8, .step = step}).permutation(3)];
  EXPECT_EQ(orders.size(), 6u);
  for (const auto& [which, count] : orders) EXPECT_NEAR(count, 1'000, 150);
  EXPECT_TRUE(RandomStream({.seed = 8}).permutation(0).empty());
}

}  // namespace
}  // namespace sotto
