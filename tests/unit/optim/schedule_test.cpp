#include "sotto/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sotto/core/config.h"

namespace sotto::optim {
namespace {

constexpr std::array kKinds = {ScheduleKind::kConstant, ScheduleKind::kLinear,
                               ScheduleKind::kCosine, ScheduleKind::kNoam};

TEST(Schedule, WarmsUpInAStraightLineFromZero) {
  for (const ScheduleKind kind : kKinds) {
    const ScheduleOptions options{.kind = kind, .rate = 2.0, .warmup_steps = 4};
    EXPECT_EQ(rate_at(options, 1, 20), 0.0);
    EXPECT_EQ(rate_at(options, 2, 20), 0.5);
    EXPECT_EQ(rate_at(options, 4, 20), 1.5);
    EXPECT_EQ(rate_at(options, 5, 20), 2.0) << "the peak";
  }
}

TEST(Schedule, WithoutWarmUpBeginsAtThePeak) {
  for (const ScheduleKind kind : kKinds) {
    EXPECT_EQ(rate_at({.kind = kind, .rate = 3.0}, 1, 10), 3.0);
  }
}

TEST(Schedule, EndsAtTheFinalRateAndStaysThere) {
  for (const ScheduleKind kind : {ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    const ScheduleOptions options{
        .kind = kind, .rate = 2.0, .warmup_steps = 2, .final_ratio = 0.25};
    EXPECT_NEAR(rate_at(options, 7, 10), 1.25, 1e-15) << "half way";
    EXPECT_GT(rate_at(options, 10, 10), 0.5);
    EXPECT_NEAR(rate_at(options, 11, 10), 0.5, 1e-15);
    EXPECT_NEAR(rate_at(options, 1000, 10), 0.5, 1e-15);
  }
}

TEST(Schedule, NoamFallsWithTheRootOfTheStepDownToItsFloor) {
  const ScheduleOptions options{
      .kind = ScheduleKind::kNoam, .rate = 1.0, .warmup_steps = 100, .final_ratio = 0.1};
  EXPECT_DOUBLE_EQ(rate_at(options, 401, 10), 0.5);
  EXPECT_DOUBLE_EQ(rate_at(options, 1'000'001, 10), 0.1);
  const ScheduleOptions without{.kind = ScheduleKind::kNoam, .rate = 1.0};
  EXPECT_DOUBLE_EQ(rate_at(without, 30'001, 10), 0.5);
}

TEST(Schedule, ConstantStaysAtThePeak) {
  const ScheduleOptions options{.kind = ScheduleKind::kConstant, .rate = 2.0, .final_ratio = 0.5};
  EXPECT_EQ(rate_at(options, 1'000'000, 10), 2.0);
}

// A run cut short by a limit of steps is in its warm-up to the end, and nothing is divided by zero.
TEST(Schedule, AWarmUpMayBeLongerThanTheRun) {
  for (const ScheduleKind kind : kKinds) {
    const ScheduleOptions options{.kind = kind, .rate = 1.0, .warmup_steps = 10};
    EXPECT_EQ(rate_at(options, 6, 5), 0.5);
    for (int64_t step = 1; step < 20; ++step) {
      EXPECT_TRUE(std::isfinite(rate_at(options, step, 0)));
      EXPECT_GE(rate_at(options, step, 0), 0.0);
    }
  }
}

TEST(Schedule, StepsCountFromOne) {
  EXPECT_THROW(rate_at({}, 0, 10), InternalError);
}

TEST(Schedule, IsReadAndWrittenAsOptions) {
  const auto options = read_overrides<ScheduleOptions>(
      {"kind=cosine", "rate=3e-4", "warmup_steps=500", "final_ratio=0.1"});
  EXPECT_EQ(options.kind, ScheduleKind::kCosine);
  EXPECT_EQ(options.rate, 3e-4);
  EXPECT_EQ(options.warmup_steps, 500);
  EXPECT_EQ(options.final_ratio, 0.1);
  EXPECT_EQ(read_overrides<ScheduleOptions>({"kind=noam"}).kind, ScheduleKind::kNoam);
  for (const char* wrong : {"kind=step", "rate=-1", "warmup_steps=-1", "final_ratio=1.5"}) {
    EXPECT_THROW(read_overrides<ScheduleOptions>({wrong}), ConfigError) << wrong;
  }
}

}  // namespace
}  // namespace sotto::optim
