// A setting that did not take effect is an error after the first step: settings are broken here
// between the dry run and the real one, each in the way that a fault of ours could.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>

#include "sotto/core/error.h"
#include "sotto/train/run/trainer.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::train {
namespace {

using device::Category;
using test::contains;

RunConfig lean_config() {
  RunConfig config = test::tiny_config();
  config.numerics = Numerics::kBf16Lean;
  config.precision.small_below = 1;  // no matrix of so small a network would be large
  config.tier = nn::Tier::kBlock;
  return config;
}

// One step planned as `asked` says and run as `built` says.
MemoryComparison compare(const RunConfig& asked, const RunConfig& built) {
  const std::vector<data::Example> examples = test::tiny_examples(8, 1);
  DryRun dry(asked, test::kTinyShape, DryRun::Purpose::kTraining);
  device::MemoryReport planned = dry.run_step(examples, {.tier = asked.tier});
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, int64_t{64} << 20);
  const device::ArenaGuard guard(at::kCPU, arena);
  Learner learner(built, test::kTinyShape, at::kCPU);
  arena->reset_peak();
  const StepResult result = run_step(learner, examples, {.tier = built.tier});
  return compare_memory(std::move(planned), memory_of_step(*arena, learner, result));
}

void expect_error(const RunConfig& built, const std::string& kind, const std::string& setting) {
  const MemoryComparison comparison = compare(lean_config(), built);
  EXPECT_FALSE(comparison.is_equal);
  const std::string message = test::message_of<InternalError>(
      [&] { check_settings_took_effect(comparison, lean_config()); });
  EXPECT_PRED2(contains, message, kind);
  EXPECT_PRED2(contains, message, setting);
}

std::string bytes_text(const MemoryComparison& comparison, Category category) {
  const auto index = static_cast<size_t>(category);
  return fmt::format("{} after the first step: {} bytes instead of the planned {}",
                     device::name_of(category), comparison.measured.live_by_category[index],
                     comparison.planned.live_by_category[index]);
}

TEST(Settings, ThatTookEffectPassSilently) {
  const MemoryComparison comparison = compare(lean_config(), lean_config());
  EXPECT_TRUE(comparison.is_equal);
  check_settings_took_effect(comparison, lean_config());
}

TEST(Settings, DetectMomentsThatAreNot8Bit) {
  RunConfig built = lean_config();
  built.precision.moments = optim::Moments::kFp32;
  expect_error(built, "optimizer", "precision.moments: 8bit");
  const MemoryComparison comparison = compare(lean_config(), built);
  EXPECT_PRED2(contains, test::message_of<InternalError>([&] {
                 check_settings_took_effect(comparison, lean_config());
               }),
               bytes_text(comparison, Category::kOptimizer));
}

TEST(Settings, DetectLongerRemainder) {
  RunConfig built = lean_config();
  built.precision.remainder_bits = 16;
  expect_error(built, "optimizer", "precision.remainder_bits: 8");
}

TEST(Settings, DetectGradientsThatAreNotBf16) {
  RunConfig built = lean_config();
  built.precision.gradients = at::kFloat;
  expect_error(built, "gradients", "precision.gradients: bf16");
}

TEST(Settings, DetectWeightsThatAreNotBf16) {
  RunConfig built = test::tiny_config();
  built.tier = nn::Tier::kBlock;
  expect_error(built, "weights", "precision.compute: bf16");
}

TEST(Settings, DetectTierThatKeepsMore) {
  for (const nn::Tier tier : {nn::Tier::kNone, nn::Tier::kNorms, nn::Tier::kFfn, nn::Tier::kQkv}) {
    RunConfig built = lean_config();
    built.tier = tier;
    expect_error(built, "activations at the peak", "tier: block");
  }
}

TEST(Settings, DetectLessOnTheHostThanPlanned) {
  RunConfig asked = lean_config();
  asked.optimizer.state = optim::StateLocation::kHost;
  MemoryComparison comparison = compare(asked, asked);
  EXPECT_GT(comparison.planned.host_peak, 0);
  check_settings_took_effect(comparison, asked);
  comparison.measured.host_peak /= 2;
  EXPECT_PRED2(contains, test::message_of<InternalError>([&] {
                 check_settings_took_effect(comparison, asked);
               }),
               "optimizer.state: host");
}

// Less memory than planned also means that a setting did not take effect.
TEST(Settings, DetectUnwanted8BitMoments) {
  RunConfig asked = lean_config();
  asked.precision.moments = optim::Moments::kFp32;
  const MemoryComparison comparison = compare(asked, lean_config());
  EXPECT_PRED2(contains, test::message_of<InternalError>([&] {
                 check_settings_took_effect(comparison, asked);
               }),
               "precision.moments: fp32");
}

// A whole run with another optimizer than the requested one.
TEST(Settings, RunWithoutPlanned8BitMomentsEndsAfterItsFirstStep) {
  const test::TempFolder folder;
  RunConfig config = lean_config();
  config.data.train = test::write_tiny_corpus(folder.path(), "train", 48, 1);
  int64_t num_steps = 0;
  bool is_shown = false;
  RunEvents events;
  events.stepped = [&](const StepReport&) { ++num_steps; };
  events.compared = [&](const MemoryComparison& both) { is_shown = !both.is_equal; };
  Trainer trainer(
      {.config = config, .folder = folder.path() / "run", .budget_bytes = int64_t{64} << 20},
      events);
  Learner& learner = trainer.learner();
  std::destroy_at(&learner.optimizer);
  std::construct_at(&learner.optimizer, learner.model->parameters(), config.optimizer,
                    optim::StateForm{.remainder_bits = 8, .moments = optim::Moments::kFp32});
  const std::string message = test::message_of<InternalError>([&] { trainer.run(); });
  EXPECT_PRED2(contains, message, "precision.moments: 8bit");
  EXPECT_TRUE(is_shown) << "the table with both sides comes first";
  EXPECT_EQ(num_steps, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "run" / "memory.json"));
}

}  // namespace
}  // namespace sotto::train
