#include "sotto/train/step/step_budget.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/thrown.h"

namespace sotto::train {
namespace {

using test::contains;
using test::message_of;

const NamedBudget kOnACard{.bytes = 1000, .host_bytes = 70, .device_name = "NVIDIA Some"};

TEST(DivideBudget, ArenaIsWhatLibrariesLeave) {
  const StepBudget parts = divide_budget(kOnACard, 400);
  EXPECT_EQ(parts.bytes, 600);
  EXPECT_EQ(parts.constant_bytes, 400);
  EXPECT_EQ(parts.host_bytes, 70);
  EXPECT_EQ(parts.named_for(parts.bytes), kOnACard.bytes);
}

TEST(DivideBudget, OnTheCpuTheArenaIsTheBudget) {
  const StepBudget parts = divide_budget({.bytes = 1000}, 0);
  EXPECT_EQ(parts.bytes, 1000);
  EXPECT_EQ(parts.constant_bytes, 0);
}

TEST(DivideBudget, IsRefusedIfLibrariesLeaveNothing) {
  EXPECT_EQ(divide_budget(kOnACard, 999).bytes, 1);
  const int64_t mebibyte = int64_t{1} << 20;
  const std::string text = message_of<Infeasible>([&] {
    divide_budget({.bytes = 300 * mebibyte, .device_name = "NVIDIA Some"}, 300 * mebibyte);
  });
  EXPECT_PRED2(contains, text, "taking a budget of 300 MiB on NVIDIA Some");
  EXPECT_PRED2(contains, text, "the driver and its libraries alone take 300 MiB");
  EXPECT_PRED2(contains, text, "--memory 600MiB");
}

}  // namespace
}  // namespace sotto::train
