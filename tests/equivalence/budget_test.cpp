// For given numerics the budget changes speed, never the result: 20 steps with dropout, split and
// kept in every way.
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/batch/example_list.h"
#include "sotto/train/step/fit.h"
#include "support/tolerance.h"
#include "support/training.h"

namespace sotto::train {
namespace budget_test {

using test::Curve;

constexpr int64_t kBatch = 32;
constexpr int64_t kSteps = 20;

// The effective batch of 32 in this many micro-batches.
MicroBatchLimits split_into(int64_t micro_batches) {
  return {.max_utterances = (kBatch + micro_batches - 1) / micro_batches};
}

void expect_same_curve(const Curve& a, const Curve& b, const std::string& what) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_NEAR(a.losses[i], b.losses[i], 1e-5 * std::abs(b.losses[i]))
        << what << ", step " << i + 1;
}

TEST(Budget, TiersGiveTheSameBits) {
  const Curve kept =
      test::run_curve(test::tiny_config(), {.tier = nn::Tier::kNone}, kSteps, kBatch);
  EXPECT_LT(kept.losses.back(), 0.8 * kept.losses.front()) << "nothing was learned";
  for (const auto& [name, tier] : nn::kTiers) {
    const Curve curve = test::run_curve(test::tiny_config(), {.tier = tier}, kSteps, kBatch);
    EXPECT_EQ(curve.losses, kept.losses) << name;
    EXPECT_TRUE(test::same_bits(curve.weights, kept.weights)) << name;
  }
}

TEST(Budget, PerLayerTiersGiveTheSameBits) {
  const Curve kept =
      test::run_curve(test::tiny_config(), {.tier = nn::Tier::kNone}, kSteps, kBatch);
  for (const char* tiers : {"1 block, none", "1 host, ffn", "1 none, host", "1 qkv, norms"}) {
    const Curve curve = test::run_curve(test::tiny_config(), {.tier = nn::LayerTiers::parse(tiers)},
                                        kSteps, kBatch);
    EXPECT_EQ(curve.losses, kept.losses) << tiers;
    EXPECT_TRUE(test::same_bits(curve.weights, kept.weights)) << tiers;
  }
}

TEST(Budget, SplitsGiveTheSameCurve) {
  const Curve whole = test::run_curve(test::tiny_config(), {}, kSteps, kBatch);
  for (const int64_t micro_batches : {2, 5, 32}) {
    const Curve split =
        test::run_curve(test::tiny_config(), {.limits = split_into(micro_batches)}, kSteps, kBatch);
    expect_same_curve(split, whole, fmt::format("{} micro-batches", micro_batches));
  }
}

RunConfig lean_config() {
  RunConfig config = test::tiny_config();
  config.numerics = Numerics::kBf16Lean;
  config.precision.small_below = 1;  // no matrix of so small a network would be large
  return config;
}

// Stochastic rounding depends on seed, step and position, so recomputation does not change it.
TEST(Budget, TiersGiveTheSameBitsWithRandomRounding) {
  const Curve kept = test::run_curve(lean_config(), {.tier = nn::Tier::kNone}, 5, kBatch);
  const Curve block = test::run_curve(lean_config(), {.tier = nn::Tier::kBlock}, 5, kBatch);
  EXPECT_EQ(block.losses, kept.losses);
  EXPECT_TRUE(test::same_bits(block.weights, kept.weights));
  const Curve other =
      test::run_curve(lean_config(), {.tier = nn::Tier::kNone, .seed = 2}, 5, kBatch);
  EXPECT_FALSE(test::same_bits(other.weights, kept.weights));
}

// The same data in fewer bits.
TEST(Budget, LeanNumericsFollowFp32) {
  const Curve exact = test::run_curve(test::tiny_config(), {}, kSteps, kBatch);
  for (const int64_t micro_batches : {1, 4}) {
    const Curve lean =
        test::run_curve(lean_config(), {.limits = split_into(micro_batches)}, kSteps, kBatch);
    for (size_t i = 0; i < exact.losses.size(); ++i)
      EXPECT_NEAR(lean.losses[i], exact.losses[i],
                  test::kHalfCurveTolerance * std::abs(exact.losses[i]))
          << micro_batches << " micro-batches, step " << i + 1;
  }
}

// Budgets of 1, 1/2 and 1/4 of an unsplit step, with limits from dry runs, at every tier.
TEST(Budget, BudgetsGiveTheSameCurve) {
  const RunConfig config = test::tiny_config();
  const Curve whole = test::run_curve(config, {}, kSteps, kBatch);
  for (const auto& [name, tier] : nn::kTiers) {
    DryRun dry(config, test::kTinyShape, DryRun::Purpose::kTraining);
    std::vector<data::Example> all;
    for (int64_t step = 1; step <= kSteps; ++step) {
      for (data::Example& example : test::step_examples(step, kBatch))
        all.push_back(std::move(example));
    }
    const data::ExampleList list(std::move(all), std::vector<float>(kSteps * kBatch, 1.0f));
    int64_t peak = 0;
    for (int64_t step = 1; step <= kSteps; ++step) {
      const device::MemoryReport report =
          dry.run_step(test::step_examples(step, kBatch), {.tier = tier});
      peak = std::max(peak, report.high_water);
    }
    for (const int64_t share : {1, 2, 4}) {
      BudgetFit fit(dry, list, {.bytes = peak / share});
      const data::EffectiveBatch batch{.utterances = kBatch};
      Fit found;
      try {
        found = fit.find_limits(batch, {.tier = tier});
      } catch (const ConfigError&) {
        // Weights, gradients and moments of this tiny network are more than a quarter of the peak
        // at the tiers that keep little.
        EXPECT_GE(share, 2) << name;
        continue;
      }
      EXPECT_LE(found.worst.high_water, peak / share) << name;
      for (int64_t step = 1; step <= kSteps; ++step) {
        EXPECT_LE(
            dry.run_step(test::step_examples(step, kBatch), {.tier = tier, .limits = found.limits})
                .high_water,
            peak / share)
            << name << ", step " << step;
      }
      const Curve curve =
          test::run_curve(config, {.tier = tier, .limits = found.limits}, kSteps, kBatch);
      expect_same_curve(curve, whole, fmt::format("tier {}, budget 1/{}", name, share));
    }
  }
}

}  // namespace budget_test
}  // namespace sotto::train
