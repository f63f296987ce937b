// Plans against real steps: what is called feasible runs in just the bytes that it asked for, and
// what is refused runs out of memory.
#include <gtest/gtest.h>

#include "support/random_plans.h"

namespace sotto::test {
namespace {

// `make test-slow` runs 200, and large ones.
TEST(RandomPlans, UseThePlannedMemory) {
  PlanProofs all;
  for (uint64_t number = 0; number < 40; ++number)
    expect_holds(prove_random_plan(number, /*is_large=*/false), all);
  // Neither kind is rare.
  EXPECT_GT(all.num_feasible, 20);
  EXPECT_GT(all.num_refused, 2);
}

}  // namespace
}  // namespace sotto::test
