#include "sotto/train/step/run_limits.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/batch/example_list.h"
#include "sotto/train/run/run_files.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::train {
namespace {

class RunLimitsTest : public ::testing::Test {
 protected:
  RunLimits find(int64_t bytes, const std::optional<EarlierLimits>& earlier) {
    const StepBudget budget{.bytes = bytes};
    BudgetFit fit(dry_, source_, budget);
    return find_run_limits(fit, budget, config_, settings_, earlier);
  }

  RunConfig config_ = test::tiny_config();
  data::ExampleList source_{test::tiny_examples(48, 1)};
  DryRun dry_{config_, test::kTinyShape, DryRun::Purpose::kTraining};
  StepSettings settings_{.tier = config_.tier,
                         .largest_item = find_largest_item(dry_.model(), source_)};
  int64_t whole_ = find(device::Arena::kUnlimited, std::nullopt).fit.worst.high_water;
  MicroBatchLimits half_ = find(whole_ * 2 / 3, std::nullopt).fit.limits;
};

TEST_F(RunLimitsTest, AreKeptForTheSameBudget) {
  ASSERT_LT(half_.max_frames, MicroBatchLimits::kUnlimited);
  const RunLimits kept = find(device::Arena::kUnlimited, EarlierLimits{.limits = half_});
  EXPECT_EQ(kept.fit.limits, half_);
  EXPECT_EQ(kept.note, "");
  EXPECT_LE(kept.fit.worst.high_water, whole_ * 2 / 3);
}

TEST_F(RunLimitsTest, AreRaisedToTheLargestItem) {
  MicroBatchLimits low = half_;
  low.max_frames = settings_.largest_item.frames / 2;
  EXPECT_EQ(find(whole_, EarlierLimits{.limits = low}).fit.limits.max_frames,
            settings_.largest_item.frames);
}

TEST_F(RunLimitsTest, AreRecomputedForAnotherBudget) {
  const RunLimits up =
      find(device::Arena::kUnlimited, EarlierLimits{.limits = half_, .is_same_budget = false});
  EXPECT_EQ(up.fit.limits.max_frames, MicroBatchLimits::kUnlimited);
  EXPECT_PRED2(test::contains, up.note, "the whole step per micro-batch now");
  EXPECT_PRED2(test::contains, up.note, fmt::format("{} frames before", half_.max_frames));
  const RunLimits down = find(whole_ / 2, EarlierLimits{.limits = half_, .is_same_budget = false});
  EXPECT_LT(down.fit.limits.max_frames, half_.max_frames);
}

// Limits that ran out of memory at this budget are not tried again, whatever the checkpoint has.
TEST_F(RunLimitsTest, StayWithinLearnedLimits) {
  const EarlierLimits earlier{
      .limits = {.max_frames = 1}, .learned = half_, .is_same_budget = false};
  EXPECT_EQ(find(whole_, earlier).fit.limits.max_frames, half_.max_frames);
  EarlierLimits low = earlier;
  low.learned.max_frames = 1;
  EXPECT_EQ(find(whole_, low).fit.limits.max_frames, settings_.largest_item.frames);
}

TEST_F(RunLimitsTest, LearnedLimitsAreReadOnlyForTheirBudget) {
  const test::TempFolder folder;
  const LimitsBasis basis{.memory = "8GiB", .device = "a card", .named = {.max_utterances = 4}};
  EXPECT_EQ(read_learned_limits(folder.path(), basis), MicroBatchLimits());
  write_learned_limits(folder.path(), half_, basis);
  EXPECT_EQ(read_learned_limits(folder.path(), basis), half_);
  LimitsBasis other = basis;
  other.memory = "9GiB";
  EXPECT_EQ(read_learned_limits(folder.path(), other), MicroBatchLimits());
  other = basis;
  other.device = "another card";
  EXPECT_EQ(read_learned_limits(folder.path(), other), MicroBatchLimits());
  other = basis;
  other.named.max_utterances = 8;
  EXPECT_EQ(read_learned_limits(folder.path(), other), MicroBatchLimits());
  forget_learned_limits(folder.path());
  EXPECT_EQ(read_learned_limits(folder.path(), basis), MicroBatchLimits());
}

// A long utterance with a long text excludes only itself.
TEST_F(RunLimitsTest, LabelsOfALongUtteranceDoNotAffectShorterOnes) {
  std::vector<data::Example> examples = test::tiny_examples(8, 1);
  const data::ExampleList shorter(examples);
  data::ExampleSize largest;
  for (const data::Example& example : examples) {
    largest.rows = std::max(largest.rows, example.rows);
    largest.labels = std::max(largest.labels, std::ssize(example.labels));
  }
  const data::Example alone = shorter.dry_example(largest);
  const StepBudget budget{.bytes = dry_.run_micro_batch({&alone, 1}, settings_.tier).high_water};
  data::Example longer = examples.front();
  longer.rows = 2 * largest.rows;
  longer.labels.assign(static_cast<size_t>(400 * largest.labels), 1);
  examples.push_back(longer);
  std::vector<float> lengths;
  for (const data::Example& example : examples) lengths.push_back(static_cast<float>(example.rows));
  const data::ExampleList all(examples, lengths);
  EXPECT_EQ(BudgetFit(dry_, all, budget).longest_fitting_s(settings_),
            static_cast<double>(largest.rows));
}

TEST_F(RunLimitsTest, AreRecomputedIfTheyDoNotFit) {
  const RunLimits found = find(whole_ / 2, EarlierLimits{.limits = half_});
  EXPECT_LT(found.fit.limits.max_frames, half_.max_frames);
  EXPECT_PRED2(test::contains, found.note, "do not fit into the budget");
}

}  // namespace
}  // namespace sotto::train
