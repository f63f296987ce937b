#include "sotto/train/step/epoch_audit.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/batch/example_list.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::train {
namespace {

using test::contains;
using test::message_of;

class EpochAudits : public ::testing::Test {
 protected:
  EpochAudits()
      : source_(test::tiny_examples(kUtterances, 1)),
        dry_(config_, test::kTinyShape, DryRun::Purpose::kTraining),
        epoch_(data::Sampler({.seed = 7, .batch = config_.effective_batch},
                             std::vector<float>(kUtterances, 1.0f))
                   .epoch(0)) {}

  // So few bytes that nothing fits; what libraries take of a budget besides is `constant_bytes`.
  std::string refusal_with(int64_t constant_bytes) {
    return message_of<Infeasible>([&] {
      BudgetFit(dry_, source_, {.bytes = 1, .constant_bytes = constant_bytes})
          .find_limits(config_.effective_batch, settings_);
    });
  }
  EpochAudit audit_in(int64_t bytes) {
    return EpochAuditor(dry_, source_, {.bytes = bytes}).audit(epoch_, settings_);
  }
  device::MemoryReport run(int64_t step) {
    std::vector<data::Example> examples;
    for (const uint32_t index : epoch_.utterances(step)) examples.push_back(source_.dry_at(index));
    return dry_.run_step(examples, settings_);
  }

  static constexpr int64_t kUtterances = 48;
  RunConfig config_ = test::tiny_config();
  data::ExampleList source_;
  DryRun dry_;
  data::EpochOrder epoch_;
  StepSettings settings_{.drops_layers = false, .limits = {.is_adaptive = false}};
};

TEST_F(EpochAudits, CountTheMicroBatchesOfTheLargestStep) {
  const EpochAuditor auditor(dry_, source_, {.bytes = device::Arena::kUnlimited});
  int64_t most = 0;
  for (int64_t step = 0; step < epoch_.num_steps(); ++step)
    most = std::max(most, std::ssize(epoch_.utterances(step)));
  EXPECT_EQ(auditor.most_micro_batches(epoch_, {.max_utterances = 1}), most);
  EXPECT_EQ(auditor.most_micro_batches(epoch_, {}), 1);
}

TEST_F(EpochAudits, FindTheLargestPeakOfAllSteps) {
  const EpochAudit audit = audit_in(device::Arena::kUnlimited);
  EXPECT_EQ(audit.num_steps, epoch_.num_steps());
  int64_t worst = 0, worst_step = 0;
  for (int64_t step = 0; step < epoch_.num_steps(); ++step) {
    if (run(step).high_water <= worst) continue;
    worst = run(step).high_water;
    worst_step = step + 1;
  }
  EXPECT_EQ(audit.fit.worst.high_water, worst);
  EXPECT_EQ(audit.worst_step, worst_step);
}

// What fits into a budget fits into every larger one, because limits never fall below the longest
// utterance.
TEST_F(EpochAudits, PassInEveryLargerBudget) {
  settings_.limits = {};
  settings_.largest_item = find_largest_item(dry_.model(), source_);
  const int64_t most = audit_in(device::Arena::kUnlimited).fit.worst.high_water;
  int64_t least = 0;
  for (int64_t bytes = most / 8; bytes < most; bytes += most / 200) {
    try {
      const EpochAudit audit = audit_in(bytes);
      if (least == 0) least = bytes;
      EXPECT_GE(audit.fit.limits.max_frames, settings_.largest_item.frames) << bytes;
      EXPECT_LE(audit.fit.worst.high_water, bytes);
    } catch (const Infeasible&) {
      EXPECT_EQ(least, 0) << bytes << " is refused, " << least << " was not";
    }
  }
  EXPECT_GT(least, 0);
}

TEST_F(EpochAudits, NameTheUtterancesOfABreach) {
  const EpochAudit audit = audit_in(device::Arena::kUnlimited);
  EXPECT_NO_THROW(audit_in(audit.fit.worst.high_water));
  const std::string refusal =
      message_of<ConfigError>([&] { audit_in(audit.fit.worst.high_water - 1); });
  EXPECT_PRED2(contains, refusal, fmt::format("step {} of an epoch", audit.worst_step));
  const int64_t first = epoch_.utterances(audit.worst_step - 1).front();
  EXPECT_PRED2(contains, refusal, fmt::format(" {},", source_.utterance_at(first)));
}

TEST_F(EpochAudits, RankTheStepsThatTakeMost) {
  constexpr size_t kSteps = 3;
  const std::vector<int64_t> worst =
      EpochAuditor(dry_, source_, {}).worst_steps(epoch_, settings_, kSteps);
  std::vector<int64_t> all;
  for (int64_t step = 0; step < epoch_.num_steps(); ++step) all.push_back(run(step).peak);
  std::ranges::sort(all, std::greater<>());
  ASSERT_EQ(worst.size(), kSteps);
  for (size_t i = 0; i < kSteps; ++i) EXPECT_EQ(run(worst[i]).peak, all[i]) << i;
  EXPECT_EQ(EpochAuditor(dry_, source_, {}).worst_steps(epoch_, settings_, 1'000).size(),
            all.size());
}

// The user's budget includes the memory of libraries.
TEST_F(EpochAudits, RefusalsNameTheWholeBudget) {
  const auto named = [](const std::string& refusal) {
    const std::string before = "--memory ";
    return std::stoll(refusal.substr(refusal.find(before) + before.size()));
  };
  EXPECT_EQ(named(refusal_with(int64_t{700} << 20)), named(refusal_with(0)) + 700);
}

TEST_F(EpochAudits, CountMicroBatches) {
  settings_.limits.max_utterances = 3;
  EXPECT_EQ(audit_in(device::Arena::kUnlimited).most_micro_batches, 3);
}

TEST_F(EpochAudits, LowerAdaptiveLimits) {
  settings_.limits.is_adaptive = true;
  const EpochAudit whole = audit_in(device::Arena::kUnlimited);
  const int64_t budget = whole.fit.worst.high_water - 1;
  const EpochAudit lowered = audit_in(budget);
  EXPECT_LE(lowered.fit.worst.high_water, budget);
  EXPECT_LT(lowered.fit.limits.max_frames, whole.fit.limits.max_frames);
}

}  // namespace
}  // namespace sotto::train
