// Out of memory anywhere in a step: the step is run again, and nothing shows.
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>

#include "sotto/core/error.h"
#include "sotto/device/torch_memory.h"
#include "sotto/train/step/recovery.h"
#include "support/thrown.h"
#include "support/training.h"

namespace sotto::train {
namespace recovery_test {

using device::Arena;
using device::ArenaGuard;

constexpr int64_t kBatch = 5;

// Two steps; the arena throws at the given reservations of the first, one after the other.
struct Disturbed {
  std::vector<at::Tensor> weights;
  MicroBatchLimits limits;
  int64_t num_restarts = 0;
};

class Recovery : public ::testing::Test {
 protected:
  Recovery()
      : arena_(std::make_shared<Arena>(device::RegionKind::kHost, int64_t{64} << 20)),
        guard_(at::kCPU, arena_) {}

  Disturbed run(const std::vector<int64_t>& failing, MicroBatchLimits limits = {}) {
    Learner learner(test::tiny_config(), test::kTinyShape, at::kCPU);
    StepSettings settings{.limits = limits};
    Disturbed disturbed;
    size_t next = 0;
    if (!failing.empty()) arena_->inject_failure(failing[next++]);
    for (settings.step = 1; settings.step <= 2; ++settings.step) {
      run_step_with_retries(learner, test::step_examples(settings.step, kBatch), settings, *arena_,
                            {.restarted = [&](const Restart&) {
                              ++disturbed.num_restarts;
                              if (next < failing.size()) arena_->inject_failure(failing[next++]);
                            }});
    }
    disturbed.weights = test::weights_of(learner);
    disturbed.limits = settings.limits;
    return disturbed;
  }

  int64_t reservations_of_a_step() {
    Learner learner(test::tiny_config(), test::kTinyShape, at::kCPU);
    arena_->reset_peak();
    run_step(learner, test::step_examples(1, kBatch), {});
    return arena_->report().num_reservations;
  }

  std::shared_ptr<Arena> arena_;
  ArenaGuard guard_;
};

TEST_F(Recovery, GivesTheSameBitsWhicheverReservationFails) {
  const Disturbed undisturbed = run({});
  const int64_t num_reservations = reservations_of_a_step();
  ASSERT_GT(num_reservations, 50);
  for (int64_t n = 1; n <= num_reservations; ++n) {
    const Disturbed disturbed = run({n});
    ASSERT_EQ(disturbed.num_restarts, 1) << "reservation " << n;
    ASSERT_EQ(disturbed.limits, undisturbed.limits) << "reservation " << n;
    ASSERT_TRUE(test::same_bits(disturbed.weights, undisturbed.weights)) << "reservation " << n;
  }
}

// The second failure halves the limits for the rest of the run, as if they had been set from that
// step on.
TEST_F(Recovery, HalvedLimitsActLikeGivenLimits) {
  const Disturbed halved = run({3, 40});
  EXPECT_EQ(halved.num_restarts, 2);
  EXPECT_LT(halved.limits.max_frames, MicroBatchLimits::kUnlimited);
  const Disturbed given = run({}, halved.limits);
  EXPECT_TRUE(test::same_bits(halved.weights, given.weights));
  EXPECT_EQ(given.limits, halved.limits);
}

TEST_F(Recovery, GivesUpAfterThreeRetriesAndListsThem) {
  const std::string text = test::message_of<OutOfMemory>([&] { run({5, 40, 40, 40}); });
  EXPECT_PRED2(test::contains, text, "after 3 retries");
  // Twice the whole step, then halves of it, each with what it reached.
  size_t whole = 0;
  for (size_t at = 0; (at = text.find("the whole step: ", at)) != std::string::npos; ++at) ++whole;
  size_t limited = 0;
  for (size_t at = 0; (at = text.find(" frames: ", at)) != std::string::npos; ++at) ++limited;
  EXPECT_EQ(whole, 2u) << text;
  EXPECT_EQ(limited, 2u) << text;
}

TEST(OutOfMemoryReason, IsFoundInErrorsOfAllLibraries) {
  const auto torch = [](const std::string& text) {
    return c10::Error({"somewhere", "in.cpp", 7}, text);
  };
  for (const std::string text :
       {"CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `x`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"})
    EXPECT_TRUE(out_of_memory_reason(torch(text)).has_value()) << text;
  EXPECT_TRUE(
      out_of_memory_reason(c10::OutOfMemoryError({"f", "f.cpp", 1},
                                                 "CUDA out of memory. Tried to allocate 2.00 GiB."))
          .has_value());
  EXPECT_TRUE(out_of_memory_reason(std::bad_alloc()).has_value());
  EXPECT_TRUE(out_of_memory_reason(OutOfMemory({.attempted = "a", .found = "b"})).has_value());
  EXPECT_FALSE(out_of_memory_reason(torch("CUDA error: an illegal memory access was encountered")));
  EXPECT_FALSE(out_of_memory_reason(torch("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED")));
  // What we say ourselves of other things may have the words in it.
  EXPECT_FALSE(out_of_memory_reason(DataError({.attempted = "a", .found = "out of memory.flac"})));
}

// Halving stops at the longest utterance, which cannot be split.
TEST_F(Recovery, NeverSplitsAnUtterance) {
  Learner learner(test::tiny_config(), test::kTinyShape, at::kCPU);
  const std::vector<data::Example> examples = test::step_examples(1, kBatch);
  StepSettings settings;
  for (int i = 0; i < 10; ++i) settings.limits = halved(*learner.model, examples, settings);
  const MicroBatchLimits& limits = settings.limits;
  int64_t longest = 0;
  for (const data::Example& example : examples)
    longest = std::max(longest, learner.model->size_of(data::size_of(example)).frames);
  EXPECT_EQ(limits.max_frames, longest);
  EXPECT_GE(split_step(*learner.model, examples, limits).size(), 2u);
}

// Limits apply to all later steps, so the longest utterance of the run must fit.
TEST_F(Recovery, HalvedLimitsStillFitTheLargestItem) {
  Learner learner(test::tiny_config(), test::kTinyShape, at::kCPU);
  const std::vector<data::Example> examples = test::step_examples(1, kBatch);
  int64_t all = 0;
  for (const data::Example& example : examples)
    all += learner.model->size_of(data::size_of(example)).frames;
  // Longer than any utterance of this step, and shorter than all of them together.
  StepSettings settings{.largest_item = {.frames = all - 1, .labels = 1}};
  settings.limits = halved(*learner.model, examples, settings);
  EXPECT_EQ(settings.limits.max_frames, all - 1);
  settings.limits = halved(*learner.model, examples, settings);
  EXPECT_EQ(settings.limits.max_frames, all - 1);
  EXPECT_LT(settings.limits.max_utterances, kBatch);
}

// At most 16 gradients may be summed in bf16, so a step is not split into more parts.
TEST_F(Recovery, RespectsTheBf16GradientSumLimit) {
  RunConfig config = test::tiny_config();
  config.numerics = Numerics::kBf16Lean;
  Learner learner(config, test::kTinyShape, at::kCPU);
  constexpr int64_t kMany = 2 * kMaxBf16Sums + 2;
  StepSettings settings{.limits = {.max_utterances = 3}};
  int64_t num_restarts = 0;
  const auto fail_again = [&](const Restart&) {
    ++num_restarts;
    arena_->inject_failure(40);
  };
  arena_->inject_failure(40);
  EXPECT_THROW(run_step_with_retries(learner, test::step_examples(1, kMany), settings, *arena_,
                                     {.restarted = fail_again}),
               OutOfMemory);
  EXPECT_EQ(num_restarts, 1);
  EXPECT_EQ(settings.limits.max_utterances, 3);
}

// Limits apply to later steps, so steps with more utterances count too.
TEST_F(Recovery, RespectsTheBf16GradientSumLimitInLaterSteps) {
  RunConfig config = test::tiny_config();
  config.numerics = Numerics::kBf16Lean;
  Learner learner(config, test::kTinyShape, at::kCPU);
  StepSettings settings{.limits = {.max_utterances = 4, .is_adaptive = false}};
  int64_t num_restarts = 0;
  const StepWatcher watcher = {.restarted =
                                   [&](const Restart&) {
                                     ++num_restarts;
                                     arena_->inject_failure(40);
                                   },
                               .most_micro_batches =
                                   [](const MicroBatchLimits& limits) {
                                     return 3 * kMaxBf16Sums /
                                            limits.max_utterances;  // a later step of 48 utterances
                                   }};
  arena_->inject_failure(40);
  EXPECT_THROW(
      run_step_with_retries(learner, test::step_examples(1, kBatch), settings, *arena_, watcher),
      OutOfMemory);
  EXPECT_EQ(num_restarts, 1);
  EXPECT_EQ(settings.limits.max_utterances, 4);
}

TEST_F(Recovery, Bf16GradientSumsAreCountedPerStep) {
  RunConfig config = test::tiny_config();
  config.numerics = Numerics::kBf16Lean;
  Learner learner(config, test::kTinyShape, at::kCPU);
  const StepSettings settings{.limits = {.max_utterances = 1}};
  run_step(learner, test::step_examples(1, kMaxBf16Sums), settings);
  EXPECT_THROW(run_step(learner, test::step_examples(1, kMaxBf16Sums + 1), settings), ConfigError);
}

// A retry would apply the first part of the update twice.
TEST_F(Recovery, IsNotAttemptedAfterAPartialUpdate) {
  Learner learner(test::tiny_config(), test::kTinyShape, at::kCPU);
  learner.is_whole = false;
  StepSettings settings;
  int64_t num_restarts = 0;
  arena_->inject_failure(3);
  EXPECT_THROW(run_step_with_retries(learner, test::step_examples(1, kBatch), settings, *arena_,
                                     {.restarted = [&](const Restart&) { ++num_restarts; }}),
               OutOfMemory);
  EXPECT_EQ(num_restarts, 0);
}

}  // namespace recovery_test
}  // namespace sotto::train
