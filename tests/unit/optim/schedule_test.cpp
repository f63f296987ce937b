#include "sotto/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sotto/core/config/config.h"

namespace sotto::optim {
namespace {

constexpr std::array kKinds = {ScheduleKind::kConstant, ScheduleKind::kLinear,
                               ScheduleKind::kCosine,   ScheduleKind::kInverseSqrt,
                               ScheduleKind::kTriStage, ScheduleKind::kPlateau};

TEST(Schedule, WarmsUpLinearlyFromZero) {
  for (const ScheduleKind kind : kKinds) {
    const ScheduleOptions options{.kind = kind, .rate = 2.0, .warmup_steps = 4};
    EXPECT_EQ(rate_at(options, 1, 20), 0.0);
    EXPECT_EQ(rate_at(options, 2, 20), 0.5);
    EXPECT_EQ(rate_at(options, 4, 20), 1.5);
    EXPECT_EQ(rate_at(options, 5, 20), 2.0) << "the peak";
  }
}

TEST(Schedule, StartsAtThePeakWithoutWarmUp) {
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

TEST(Schedule, InverseSqrtFallsToItsFloor) {
  const ScheduleOptions options{
      .kind = ScheduleKind::kInverseSqrt, .rate = 1.0, .warmup_steps = 100, .final_ratio = 0.1};
  EXPECT_DOUBLE_EQ(rate_at(options, 401, 10), 0.5);
  EXPECT_DOUBLE_EQ(rate_at(options, 1'000'001, 10), 0.1);
  const ScheduleOptions without{.kind = ScheduleKind::kInverseSqrt, .rate = 1.0};
  EXPECT_DOUBLE_EQ(rate_at(without, 30'001, 10), 0.5);
}

TEST(Schedule, ConstantStaysAtThePeak) {
  const ScheduleOptions options{.kind = ScheduleKind::kConstant, .rate = 2.0, .final_ratio = 0.5};
  EXPECT_EQ(rate_at(options, 1'000'000, 10), 2.0);
}

// A run shortened by max_steps may end during warm-up, without a division by zero.
TEST(Schedule, WarmUpMayBeLongerThanTheRun) {
  for (const ScheduleKind kind : kKinds) {
    const ScheduleOptions options{.kind = kind, .rate = 1.0, .warmup_steps = 10};
    EXPECT_EQ(rate_at(options, 6, 5), 0.5);
    for (int64_t step = 1; step < 20; ++step) {
      EXPECT_TRUE(std::isfinite(rate_at(options, step, 0)));
      EXPECT_GE(rate_at(options, step, 0), 0.0);
    }
  }
}

TEST(Schedule, TriStageHoldsThePeakThenFallsByAFactor) {
  const ScheduleOptions options{.kind = ScheduleKind::kTriStage,
                                .rate = 2.0,
                                .warmup_share = 0.1,
                                .hold_share = 0.4,
                                .final_ratio = 0.01};
  EXPECT_EQ(rate_at(options, 6, 100), 1.0) << "half way up";
  EXPECT_EQ(rate_at(options, 11, 100), 2.0);
  EXPECT_EQ(rate_at(options, 51, 100), 2.0);
  EXPECT_LT(rate_at(options, 52, 100), 2.0);
  EXPECT_NEAR(rate_at(options, 76, 100), 0.2, 1e-15) << "half way down";
  EXPECT_NEAR(rate_at(options, 101, 100), 0.02, 1e-15);
  EXPECT_NEAR(rate_at(options, 1'000, 100), 0.02, 1e-15);
}

TEST(Schedule, WarmsUpForAShareOfAnySchedule) {
  for (const ScheduleKind kind : kKinds) {
    ScheduleOptions by_share{.kind = kind, .rate = 1.0, .warmup_share = 0.25, .final_ratio = 0.1};
    ScheduleOptions by_steps{.kind = kind, .rate = 1.0, .warmup_steps = 10, .final_ratio = 0.1};
    for (int64_t step = 1; step <= 45; ++step)
      EXPECT_EQ(rate_at(by_share, step, 40), rate_at(by_steps, step, 40)) << step;
  }
}

TEST(Plateau, ReducesTheRateWhenPatienceRunsOut) {
  const ScheduleOptions options{.kind = ScheduleKind::kPlateau,
                                .final_ratio = 0.2,
                                .plateau_factor = 0.5,
                                .plateau_patience = 1};
  Plateau plateau;
  const auto factor_after = [&](double value) {
    plateau.update(options, value);
    return plateau.factor;
  };
  EXPECT_EQ(factor_after(3.0), 1.0);
  EXPECT_EQ(factor_after(3.0), 1.0) << "no better, which is borne once";
  EXPECT_EQ(factor_after(2.0), 1.0);
  EXPECT_EQ(factor_after(2.5), 1.0);
  EXPECT_EQ(factor_after(2.0), 0.5);
  EXPECT_EQ(factor_after(2.1), 0.5) << "patience begins anew";
  EXPECT_EQ(factor_after(2.1), 0.25);
  EXPECT_EQ(factor_after(std::nan("")), 0.25);
  EXPECT_EQ(factor_after(std::nan("")), 0.2) << "not below the final rate";

  // As a checkpoint brings it back.
  Plateau resumed{.best = plateau.best, .num_worse = plateau.num_worse, .factor = plateau.factor};
  EXPECT_EQ(resumed.best, 2.0);
  EXPECT_EQ(resumed.num_worse, 0);
}

TEST(Plateau, DoesNotAffectOtherSchedules) {
  Plateau plateau;
  for (int i = 0; i < 10; ++i) plateau.update({}, 1.0);
  EXPECT_EQ(plateau.factor, 1.0);
}

TEST(Schedule, RefusesSettingsWithoutEffect) {
  const auto refused = [](std::vector<std::string> overrides) {
    EXPECT_THROW(read_overrides<ScheduleOptions>(overrides), ConfigError) << overrides.back();
  };
  refused({"warmup_steps=5", "warmup_share=0.1"});
  refused({"hold_share=0.1"});
  refused({"plateau_factor=0.1"});
  refused({"kind=cosine", "plateau_patience=7"});
  refused({"kind=tri_stage"});
  refused({"kind=tri_stage", "final_ratio=0.01", "warmup_share=0.6", "hold_share=0.5"});
  read_overrides<ScheduleOptions>({"kind=plateau", "plateau_patience=7"});
  read_overrides<ScheduleOptions>(
      {"kind=tri_stage", "final_ratio=0.01", "warmup_share=0.1", "hold_share=0.4"});
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
  EXPECT_EQ(read_overrides<ScheduleOptions>({"kind=inverse_sqrt"}).kind,
            ScheduleKind::kInverseSqrt);
  for (const char* wrong :
       {"kind=step", "kind=noam", "rate=-1", "warmup_steps=-1", "final_ratio=1.5", "warmup_share=2",
        "hold_share=-1", "plateau_factor=1", "plateau_factor=0", "plateau_patience=-1"}) {
    EXPECT_THROW(read_overrides<ScheduleOptions>({wrong}), ConfigError) << wrong;
  }
}

}  // namespace
}  // namespace sotto::optim
