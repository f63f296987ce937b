// Whole training steps on a GPU: the same curve as on the CPU, whatever the budget does; the bytes
// that the dry run said; and an end to every lack of memory.
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/device/torch_memory.h"
#include "sotto/train/step/dry_run.h"
#include "sotto/train/step/recovery.h"
#include "support/exact_steps.h"
#include "support/gpu.h"
#include "support/tolerance.h"
#include "support/training.h"

namespace sotto::train {
namespace {

using device::Arena;
using device::ArenaGuard;
using device::RegionKind;
using test::Curve;
using test::gpu;

constexpr int64_t kBatch = 16;
constexpr int64_t kSteps = 20;

RunConfig config_for(Numerics numerics) {
  RunConfig config = test::tiny_config();
  config.numerics = numerics;
  config.precision.small_below = 1;  // no matrix of so small a network would be large
  return config;
}

class CudaSteps : public ::testing::Test {
 protected:
  void SetUp() override { SOTTO_SKIP_WITHOUT_GPU(); }

  static Curve run(Numerics numerics, const StepSettings& settings = {}) {
    apply_arithmetic(preset_of(numerics));
    const device::TargetScope target(gpu()->target);
    return test::run_curve(config_for(numerics), settings, kSteps, kBatch, gpu()->torch);
  }
};

void expect_same_curve(const Curve& a, const Curve& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_NEAR(a.losses[i], b.losses[i], tolerance * std::abs(b.losses[i]))
        << what << ", step " << i + 1;
}

TEST_F(CudaSteps, AgreeWithTheCpu) {
  const Curve on_cpu = test::run_curve(config_for(Numerics::kFp32), {}, kSteps, kBatch);
  EXPECT_LT(on_cpu.losses.back(), 0.8 * on_cpu.losses.front()) << "nothing was learned";
  expect_same_curve(run(Numerics::kFp32), on_cpu, test::kCudaCurveTolerance, "fp32");
  expect_same_curve(run(Numerics::kTf32), on_cpu, test::kHalfCurveTolerance, "tf32");
  expect_same_curve(run(Numerics::kBf16Exact), on_cpu, test::kHalfCurveTolerance, "bf16-exact");
  expect_same_curve(run(Numerics::kBf16Lean), on_cpu, test::kHalfCurveTolerance, "bf16-lean");
  expect_same_curve(run(Numerics::kFp16, {.loss_scale = 1024.0}), on_cpu, test::kHalfCurveTolerance,
                    "fp16");
}

TEST_F(CudaSteps, TiersGiveTheSameCurve) {
  for (const auto& [numerics_name, numerics] : kNumerics) {
    const Curve kept = run(numerics, {.tier = nn::Tier::kNone});
    const double tolerance =
        numerics == Numerics::kFp32 ? test::kCudaCurveTolerance : test::kHalfCurveTolerance;
    for (const auto& [name, tier] : nn::kTiers)
      expect_same_curve(run(numerics, {.tier = tier}), kept, tolerance,
                        std::string(numerics_name) + " " + std::string(name));
  }
}

TEST_F(CudaSteps, SplitsGiveTheSameCurve) {
  for (const auto& [name, numerics] : kNumerics) {
    const Curve whole = run(numerics);
    const double tolerance =
        numerics == Numerics::kFp32 ? test::kCudaCurveTolerance : test::kHalfCurveTolerance;
    for (const int64_t max_utterances : {8, 3, 1})
      expect_same_curve(run(numerics, {.limits = {.max_utterances = max_utterances}}), whole,
                        tolerance, fmt::format("{}, {} utterances", name, max_utterances));
  }
}

// In an arena of exactly the bytes that the dry run asked for.
TEST_F(CudaSteps, UseThePredictedMemory) {
  for (const auto& [numerics_name, numerics] : kNumerics) {
    apply_arithmetic(preset_of(numerics));
    for (const auto& [tier_name, tier] : nn::kTiers)
      test::expect_exact_steps(
          config_for(numerics), test::kTinyShape,
          {test::step_examples(1, 4), test::step_examples(2, 8), test::step_examples(3, 12)},
          {.tier = tier, .limits = {.max_frames = 60}}, *gpu());
  }
}

TEST_F(CudaSteps, UseThePredictedMemoryWithStateOnTheHost) {
  for (const Numerics numerics : {Numerics::kBf16Exact, Numerics::kBf16Lean}) {
    apply_arithmetic(preset_of(numerics));
    RunConfig config = config_for(numerics);
    config.optimizer.state = optim::StateLocation::kHost;
    for (const nn::Tier tier : {nn::Tier::kBlock, nn::Tier::kHost})
      test::expect_exact_steps(config, test::kTinyShape,
                               {test::step_examples(1, 4), test::step_examples(2, 8)},
                               {.tier = tier, .limits = {.max_frames = 60}}, *gpu());
  }
}

class CudaRecovery : public CudaSteps {
 protected:
  struct Disturbed {
    std::vector<double> losses;
    MicroBatchLimits limits;
    int64_t num_restarts = 0;
    int64_t num_reservations = 0;
  };

  // Two steps in an arena of `capacity`; the reservation `failing` of the first throws, 0: none.
  static Disturbed run(int64_t capacity, int64_t failing) {
    apply_arithmetic(preset_of(Numerics::kFp32));
    const device::TargetScope target(gpu()->target);
    const auto arena = std::make_shared<Arena>(RegionKind::kCuda, capacity);
    const ArenaGuard guard(at::kCUDA, arena);
    Learner learner(test::tiny_config(), test::kTinyShape, gpu()->torch, int64_t{64} << 20);
    Disturbed disturbed;
    StepSettings settings;
    arena->reset_peak();
    if (failing > 0) arena->inject_failure(failing);
    for (settings.step = 1; settings.step <= 2; ++settings.step)
      disturbed.losses.push_back(
          run_step_with_retries(learner, test::step_examples(settings.step, kBatch), settings,
                                *arena,
                                {.restarted = [&](const Restart&) { ++disturbed.num_restarts; }})
              .loss);
    disturbed.limits = settings.limits;
    disturbed.num_reservations = arena->report().num_reservations;
    return disturbed;
  }
};

TEST_F(CudaRecovery, SurvivesAnyFailedReservation) {
  const int64_t capacity = int64_t{64} << 20;
  const Disturbed undisturbed = run(capacity, 0);
  for (int64_t n = 1; n <= undisturbed.num_reservations; n += 7) {
    const Disturbed disturbed = run(capacity, n);
    ASSERT_EQ(disturbed.num_restarts, 1) << "reservation " << n;
    ASSERT_EQ(disturbed.limits, undisturbed.limits) << "reservation " << n;
    for (size_t i = 0; i < 2; ++i)
      ASSERT_NEAR(disturbed.losses[i], undisturbed.losses[i],
                  test::kCudaCurveTolerance * undisturbed.losses[i])
          << "reservation " << n;
  }
}

// An arena that a step does not fit into: it is split until it does.
TEST_F(CudaRecovery, SplitsStepsInATooSmallArena) {
  DryRun dry(test::tiny_config(), test::kTinyShape, DryRun::Purpose::kTraining, gpu()->target);
  const int64_t whole = dry.run_step(test::step_examples(1, kBatch), {}).high_water;
  const Disturbed small = run(whole * 7 / 10, 0);
  EXPECT_GE(small.num_restarts, 2);
  EXPECT_LT(small.limits.max_frames, MicroBatchLimits::kUnlimited);
  const Disturbed undisturbed = run(int64_t{64} << 20, 0);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(small.losses[i], undisturbed.losses[i],
                test::kCudaCurveTolerance * undisturbed.losses[i]);
  EXPECT_THROW(run(whole / 10, 0), OutOfMemory);
}

}  // namespace
}  // namespace sotto::train
