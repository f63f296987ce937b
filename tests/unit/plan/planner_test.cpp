#include "sotto/plan/planner.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/data/batch/example_list.h"
#include "sotto/models/conformer/conformer.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/plan/explanation.h"
#include "sotto/plan/outlook.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"
#include "support/tiny_models.h"
#include "unit/plan/planner_fixture.h"

namespace sotto::plan {
namespace {

using nn::Tier;
using test::contains;
using test::message_of;
using train::Numerics;

TEST_F(PlannerTest, KeepsEverythingIfThereIsRoom) {
  const Plan plan = this->plan();
  EXPECT_EQ(plan.best.config.tier, Tier::kNone);
  EXPECT_EQ(plan.best.config.optimizer.state, optim::StateLocation::kDevice);
  EXPECT_EQ(plan.best.config.max_frames, 0);
  EXPECT_EQ(plan.best.micro_batches, 1);
}

// On this card fp32 is far slower, and bf16-lean is hardly faster than bf16-exact.
TEST_F(PlannerTest, PicksTheMostExactNumericsThatAreNotMuchSlower) {
  EXPECT_EQ(plan().best.config.numerics, Numerics::kBf16Exact);
}

TEST_F(PlannerTest, StaysWithinTheBudget) {
  const int64_t all = plan().best.fit.worst.high_water;
  for (const int64_t percent : {90, 70, 50, 40, 30}) {
    const int64_t budget = all * percent / 100;
    const Plan plan = plan_in(budget);
    EXPECT_LE(plan.best.fit.worst.high_water, budget) << percent;
    for (const Candidate& candidate : plan.others)
      EXPECT_LE(candidate.fit.worst.high_water, budget) << percent;
  }
}

TEST_F(PlannerTest, MoreMemoryIsNeverSlower) {
  request_.open.numerics = false;
  request_.config.numerics = Numerics::kBf16Exact;
  const int64_t first = least();
  double before = std::numeric_limits<double>::infinity();
  for (int64_t budget = first; budget < 8 * first; budget = budget * 21 / 20) {
    const double seconds = plan_in(budget).best.time.total_s();
    EXPECT_LE(seconds, before * (1 + 1e-12)) << budget;
    before = seconds;
  }
}

TEST_F(PlannerTest, FixedChoiceIsNeverFaster) {
  request_.config.numerics = Numerics::kBf16Exact;
  int64_t num_fitting = 0;
  for (const int64_t times : {1, 2, 4}) {
    request_.open = {.numerics = false};
    const int64_t budget = times * least();
    const double free = plan_in(budget).best.time.total_s();
    for (const auto& [name, tier] : nn::kTiers) {
      for (const auto& [location_name, location] : optim::kStateLocations) {
        request_.open = {.numerics = false, .state = false, .tier = false};
        request_.config.tier = tier;
        request_.config.optimizer.state = location;
        try {
          EXPECT_GE(plan().best.time.total_s(), free) << name << ", " << location_name;
          ++num_fitting;
        } catch (const Infeasible&) {
          // In the smallest budget little fits; in the largest everything does.
          EXPECT_LT(times, 4) << name << ", " << location_name;
        }
      }
    }
  }
  EXPECT_GT(num_fitting, std::ssize(nn::kTiers) * std::ssize(optim::kStateLocations));
}

// Not near the smallest budget: in a network this small, some untried mixes of tiers just fit
// there.
TEST_F(PlannerTest, FixedSplitOrTierMixIsNeverFaster) {
  request_.config.numerics = Numerics::kBf16Exact;
  for (const int64_t percent : {200, 400}) {
    request_.open = {.numerics = false};
    const double free = plan_in(least() * percent / 100).best.time.total_s();
    int64_t num_fitting = 0, num_refused = 0;
    const auto expect_no_faster = [&](const std::string& what) {
      try {
        EXPECT_GE(plan().best.time.total_s(), free) << what << " in " << percent << " %";
        ++num_fitting;
      } catch (const Infeasible&) {
        ++num_refused;
      }
    };
    request_.open = {.numerics = false, .max_frames = false};
    for (int64_t frames = longest_frames(); frames < 16 * longest_frames(); frames += 9) {
      request_.config.max_frames = frames;
      expect_no_faster(fmt::format("max_frames: {}", frames));
    }
    request_.config.max_frames = 0;
    request_.open = {.numerics = false, .tier = false};
    for (const char* mix : {"2 block, none", "1 qkv, ffn", "3 norms, block", "1 host, none"}) {
      request_.config.tier = nn::LayerTiers::parse(mix);
      expect_no_faster(mix);
    }
    EXPECT_GT(num_fitting, num_refused);
  }
}

// bf16 gradients may not be summed over the requested number of micro-batches; fp32 gradients may.
TEST_F(PlannerTest, SkipsNumericsThatTheSplitForbids) {
  request_.config.effective_batch.utterances = 32;
  const auto expect_not_lean = [&] {
    const Plan plan = this->plan();
    EXPECT_NE(plan.best.config.numerics, Numerics::kBf16Lean);
    for (const Candidate& candidate : plan.others)
      EXPECT_NE(candidate.config.numerics, Numerics::kBf16Lean);
    request_.open.numerics = false;
    request_.config.numerics = Numerics::kBf16Lean;
    EXPECT_PRED2(contains, message_of<Infeasible>([&] { this->plan(); }),
                 "steps of more than 16 micro-batches (numerics: bf16-lean");
    request_.open.numerics = true;
  };
  request_.open.micro_batch = false;
  request_.config.micro_batch = 1;
  expect_not_lean();
  request_.open = {.max_frames = false};
  request_.config.micro_batch = 0;
  request_.config.max_frames = longest_frames();
  expect_not_lean();
}

// There cannot be more micro-batches than utterances.
TEST_F(PlannerTest, AllowsAsManyMicroBatchesAsUtterances) {
  request_.open = {.numerics = false, .max_frames = false, .micro_batch = false};
  request_.config.numerics = Numerics::kBf16Lean;
  request_.config.micro_batch = 1;
  request_.config.max_frames = longest_frames();
  EXPECT_EQ(plan().best.micro_batches, request_.config.effective_batch.utterances);
}

// Only the real epoch shows pairs of utterances that do not fit together.
TEST_F(PlannerTest, CountsTheMicroBatchesOfTheEpoch) {
  request_.open = {.numerics = false, .max_frames = false};
  request_.config.numerics = Numerics::kBf16Lean;
  request_.config.effective_batch.utterances = 20;
  const data::Example longest = *std::ranges::max_element(
      source_.examples(), {}, [](const data::Example& example) { return example.rows; });
  const data::ExampleList alike(std::vector<data::Example>(20, longest),
                                std::vector<float>(20, 1.0f));
  request_.config.max_frames = 2 * longest_frames() - 1;
  EXPECT_PRED2(contains, message_of<Infeasible>([&] { Planner(request_, alike).plan(); }),
               "more than 16 micro-batches");
}

TEST_F(PlannerTest, RefusesDataWithoutUtterances) {
  const data::ExampleList none(std::vector<data::Example>{});
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { Planner(request_, none); }),
               "has no utterances");
}

// On a CPU without bf16 instructions, bf16 products are no faster than fp32: they are neither
// chosen nor measured.
TEST_F(PlannerTest, NeverPicksBf16OnACpuWithoutIt) {
  request_.target = {.cpu = {.bf16 = true}};
  // So large that weights decide, and not what a library's product takes.
  request_.config.model.as<models::TransformerCtcOptions>().width = 256;
  request_.config.model.as<models::TransformerCtcOptions>().hidden = 2'048;
  const auto least_of = [&](Numerics numerics) {
    PlanRequest fixed = request_;
    fixed.open.numerics = false;
    fixed.config.numerics = numerics;
    fixed.config.tier = Tier::kBlock;
    return bytes_as_it_is(fixed, source_);
  };
  const int64_t between = (least_of(Numerics::kFp32) + least_of(Numerics::kBf16Lean)) / 2;
  EXPECT_NE(plan_in(between).best.config.numerics, Numerics::kFp32);
  request_.target.cpu = {};
  request_.rates = [](train::Compute compute) {
    EXPECT_EQ(compute, train::Compute::kFp32);
    return some_rates(compute);
  };
  const std::string refusal = message_of<Infeasible>([&] { plan(); });
  EXPECT_PRED2(contains, refusal, "as fp32 with");
  EXPECT_PRED2(contains, refusal, "this processor has no bf16");
  Planner planner(request_, source_);
  EXPECT_FALSE(planner.best_in(between));
  EXPECT_TRUE(planner.best_in(int64_t{1} << 30));
}

// On a CPU, less exact numerics are not tried, and host and device share one memory; with a fixed
// tier no more could be kept.
TEST_F(PlannerTest, ExplainsDecisionsOnACpu) {
  request_.target = {};
  request_.open.tier = false;
  request_.config.tier = Tier::kNorms;
  request_.budget.bytes = plan().best.fit.worst.high_water / 2;
  EXPECT_PRED2(contains, why("numerics"), "the most exact numerics that fit");
  EXPECT_PRED2(contains, why("optimizer.state"), "not applicable on a CPU");
  EXPECT_PRED2(contains, why("max_frames"), "this is the fastest size that fits");
  request_.target = kCard;
  request_.open.tier = true;
  request_.budget.bytes = plan().best.fit.worst.high_water / 2;
  EXPECT_FALSE(contains(why("optimizer.state"), "not applicable on a CPU"));
  EXPECT_FALSE(contains(why("max_frames"), "the fastest size that fits"));
}

TEST_F(PlannerTest, EqualInputsGiveEqualPlans) {
  const int64_t budget = plan().best.fit.worst.high_water / 2;
  const Plan a = plan_in(budget), b = plan_in(budget);
  EXPECT_EQ(format_yaml(write_plan(a, request_)), format_yaml(write_plan(b, request_)));
}

TEST_F(PlannerTest, RespectsFixedSettings) {
  request_.open = {
      .numerics = false, .state = false, .tier = false, .max_frames = false, .micro_batch = false};
  request_.config.numerics = Numerics::kFp32;
  request_.config.tier = nn::LayerTiers::parse("1 qkv, ffn");
  request_.config.optimizer.state = optim::StateLocation::kHost;
  request_.config.max_frames = 40;
  const train::RunConfig& decided = plan().best.config;
  EXPECT_EQ(decided.numerics, Numerics::kFp32);
  EXPECT_EQ(decided.tier, request_.config.tier);
  EXPECT_EQ(decided.optimizer.state, optim::StateLocation::kHost);
  EXPECT_EQ(decided.max_frames, 40);
  EXPECT_TRUE(reasons_of(plan(), request_).empty());
}

TEST_F(PlannerTest, NeverPicksWhatTheDeviceCannotDo) {
  request_.target.capability = 75;
  request_.config.precision = {};
  for (const int64_t budget : {int64_t{1} << 30, plan().best.fit.worst.high_water / 2}) {
    const Plan plan = plan_in(budget);
    EXPECT_NE(plan.best.config.arithmetic().compute, train::Compute::kBf16);
    for (const Candidate& candidate : plan.others)
      EXPECT_NE(candidate.config.arithmetic().compute, train::Compute::kBf16);
  }
}

// The budget that a refusal names, in MiB.
int64_t named_budget(const std::string& refusal) {
  const std::string before = "--memory ";
  return std::stoll(refusal.substr(refusal.find(before) + before.size()));
}

TEST_F(PlannerTest, OneMiBLessThanSuggestedIsRefused) {
  request_.config.model.as<models::TransformerCtcOptions>().width = 384;
  request_.config.model.as<models::TransformerCtcOptions>().hidden = 1536;
  constexpr int64_t kMiB = int64_t{1} << 20;
  const int64_t enough = named_budget(message_of<ConfigError>([&] { plan_in(kMiB); })) * kMiB;
  EXPECT_NO_THROW(plan_in(enough));
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { plan_in(enough - kMiB); }),
               fmt::format("--memory {}MiB would do", enough / kMiB));
}

// The predicted peak is a sufficient budget for the same plan; with one byte less no plan is
// faster.
TEST_F(PlannerTest, PlanFitsInItsOwnPeak) {
  request_.open.numerics = false;
  const Candidate first = plan_in(2 * least()).best;
  const Candidate again = plan_in(first.fit.worst.high_water).best;
  EXPECT_EQ(again.config.tier, first.config.tier);
  EXPECT_EQ(again.config.max_frames, first.config.max_frames);
  EXPECT_GE(plan_in(first.fit.worst.high_water - 1).best.time.total_s(), first.time.total_s());
}

// With one byte less nothing fits, and a refusal names the same arena.
TEST_F(PlannerTest, SmallestArenaIsTheSmallest) {
  for (const bool is_split : {true, false}) {
    if (!is_split) {
      request_.config.micro_batch = 4;
      request_.config.adaptive_batching = false;
      request_.open.micro_batch = false;
    }
    const int64_t bytes = Planner(request_, source_).smallest_arena();
    EXPECT_LE(plan_in(bytes).best.fit.worst.high_water, bytes);
    EXPECT_THROW(plan_in(bytes - 1), Infeasible);
    // It does not depend on the budget.
    EXPECT_EQ(Planner(request_, source_).smallest_arena(), bytes);
  }
}

TEST_F(PlannerTest, RefusalsNameFixedSettings) {
  const int64_t enough = least();
  request_.open.tier = false;
  request_.config.tier = Tier::kNone;
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { plan_in(enough); }),
               "(tier: none is fixed)");
  request_.open.numerics = false;
  request_.config.numerics = Numerics::kFp32;
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { plan_in(enough); }),
               "(numerics: fp32, tier: none are fixed)");
}

TEST_F(PlannerTest, ShowsMemoryOverAStep) {
  Planner planner(request_, source_);
  const Candidate best = planner.plan().best;
  const std::vector<device::MomentPeak> timeline = planner.timeline_of(best);
  std::vector<device::Phase> phases;
  int64_t most = 0;
  for (const device::MomentPeak& peak : timeline) {
    if (phases.empty() || phases.back() != peak.moment.phase) phases.push_back(peak.moment.phase);
    most = std::max(most, peak.bytes);
  }
  using device::Phase;
  EXPECT_TRUE(std::ranges::is_sorted(phases));
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate})
    EXPECT_EQ(std::ranges::count(phases, phase), 1);
  EXPECT_GT(std::ssize(timeline),
            2 * request_.config.model.as<models::TransformerCtcOptions>().layers);
  // The largest step takes no less than this one.
  EXPECT_LE(most, best.fit.worst.peak);
  EXPECT_GT(most, best.fit.worst.peak / 2);
}

TEST_F(PlannerTest, RefusesFixedNumericsTheDeviceLacks) {
  request_.target.capability = 75;
  request_.open.numerics = false;
  request_.config.numerics = Numerics::kBf16Exact;
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { plan(); }),
               "bf16 on a GPU of capability 7.5");
}

TEST_F(PlannerTest, SuggestsWhatWouldFitIfNothingDoes) {
  const int64_t enough = least();
  EXPECT_NO_THROW(plan_in(enough));
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { plan_in(enough - 512); }), "bf16-lean");
}

TEST_F(PlannerTest, GivesAReasonForEachDecision) {
  const Plan plan = plan_in(this->plan().best.fit.worst.high_water / 2);
  std::vector<std::string> keys;
  for (const Reason& reason : reasons_of(plan, request_)) {
    keys.push_back(reason.key);
    EXPECT_FALSE(reason.why.empty());
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"numerics", "optimizer.state", "tier", "max_frames"}));
  const std::string yaml = format_yaml(write_plan(plan, request_));
  EXPECT_PRED2(contains, yaml, "Decided:");
}

TEST_F(PlannerTest, SaysWhetherTheSplitChangesTheResult) {
  const std::string clause = "the split into micro-batches changes the result";
  for (const auto& [name, kind] : nn::kInnerNormKinds) {
    request_.config.model = models::ModelOptions::of_preset("conformer-s");
    auto& model = request_.config.model.as<models::ConformerOptions>();
    model.layers = 2;
    model.width = 16;
    model.hidden = 32;
    model.convolution_norm = kind;
    const bool depends = kind == nn::InnerNormKind::kBatch;
    for (const OpenChoices& open : {OpenChoices{}, OpenChoices::none()}) {
      request_.open = open;
      EXPECT_EQ(contains(why("model.convolution_norm"), clause), depends) << name;
    }
    request_.open = {};
    const Plan plan = this->plan();
    const ConfigNode tree = write_plan(plan, request_);
    const std::string& comment = tree.find("model")->find("convolution_norm")->comment;
    EXPECT_EQ(contains(comment, ". Note: " + clause), depends) << comment;
    // It is not a decision.
    for (const Reason& reason : reasons_of(plan, request_))
      EXPECT_EQ(reason.is_setting, reason.key != "model.convolution_norm") << reason.key;
  }
}

// The written file is a configuration with the chosen settings.
TEST_F(PlannerTest, WritesAConfigThatCanBeReadBack) {
  const Plan plan = plan_in(this->plan().best.fit.worst.high_water / 2);
  const auto read = read_options<train::RunConfig>(
      parse_yaml(format_yaml(write_plan(plan, request_)), "plan.yaml"));
  EXPECT_EQ(read.tier, plan.best.config.tier);
  EXPECT_EQ(read.max_frames, plan.best.config.max_frames);
  EXPECT_EQ(read.numerics, plan.best.config.numerics);
}

// The smallest candidate depends on the CPU. Nothing is cut if the longest utterance fits.
TEST_F(PlannerTest, CutsNothingThatFits) {
  const auto longest = double{std::ranges::max(lengths(64))};
  for (const device::Target& target :
       {kCard, device::Target{.cpu = {.bf16 = true}}, device::Target{.cpu = {.bf16 = false}}}) {
    request_.target = target;
    request_.budget.bytes = least();
    EXPECT_EQ(longest_fitting_s(request_, source_), longest);
    request_.budget.bytes /= 4;
    EXPECT_EQ(longest_fitting_s(request_, source_), 0.0);
  }
}

}  // namespace
}  // namespace sotto::plan
