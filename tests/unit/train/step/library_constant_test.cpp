#include "sotto/train/step/library_constant.h"

#include <gtest/gtest.h>

namespace sotto::train {
namespace {

TEST(DivideBudget, OnTheCpuTheBudgetIsTheArena) {
  const StepBudget parts = divide_budget({}, {}, {}, 1000);
  EXPECT_EQ(parts.bytes, 1000);
  EXPECT_EQ(parts.constant_bytes, 0);
}

}  // namespace
}  // namespace sotto::train
