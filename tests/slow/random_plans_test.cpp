// The large form of RandomPlans.
#include <gtest/gtest.h>

#include <cstdio>

#include "support/librispeech.h"
#include "support/random_plans.h"

namespace sotto::test {
namespace {

TEST(TwoHundredRandomPlans, UseThePlannedMemory) {
  PlanProofs all;
  for (uint64_t number = 0; number < 180; ++number)
    expect_holds(prove_random_plan(number, /*is_large=*/false), all);
  std::printf("%ld feasible, %ld refused; high-water marks at least %.4f of predicted; %s\n",
              static_cast<long>(all.num_feasible), static_cast<long>(all.num_refused),
              all.least_share,
              librispeech_seconds().empty() ? "lengths that plans without data take"
                                            : "lengths of train-clean-100");
}

// Times are printed, not held: other work on the machine shows in them.
class TwentyLargePlans : public ::testing::TestWithParam<uint64_t> {};

TEST_P(TwentyLargePlans, UseThePlannedMemory) {
  PlanProofs all;
  const PlanProof proof = prove_random_plan(GetParam(), /*is_large=*/true);
  EXPECT_GT(proof.num_parameters, 90'000'000) << proof.name;
  expect_holds(proof, all);
  const PlanProof::Step& step = proof.steps[1];
  std::printf("%-60s %6.2f s predicted, %6.2f s measured (%.2f)\n", proof.name.c_str(),
              step.predicted_s, step.measured_s, step.predicted_s / step.measured_s);
}

INSTANTIATE_TEST_SUITE_P(All, TwentyLargePlans, ::testing::Range<uint64_t>(0, 20));

}  // namespace
}  // namespace sotto::test
