// Whole training steps: what the dry run says is what is taken, to the byte.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/decode/decoding.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "support/exact_steps.h"
#include "support/tiny_corpus.h"

namespace sotto::train {
namespace {

using device::Arena;
using device::ArenaGuard;
using device::MemoryReport;
using device::RegionKind;

using test::expect_exact_steps;

std::vector<std::vector<data::Example>> feature_steps() {
  std::vector<std::vector<data::Example>> steps;
  for (uint64_t seed = 1; seed <= 3; ++seed)
    steps.push_back(test::tiny_examples(static_cast<int64_t>(3 + 4 * seed), seed));
  return steps;
}

TEST(StepMemory, IsExactAtEveryTier) {
  for (const auto& [name, tier] : nn::kTiers) {
    for (const int64_t max_frames : {MicroBatchLimits::kUnlimited, int64_t{60}}) {
      expect_exact_steps(test::tiny_config(), test::kTinyShape, feature_steps(),
                         {.tier = tier, .limits = {.max_frames = max_frames}});
    }
  }
}

// Each layer that keeps fewer activations takes less memory.
TEST(StepMemory, IsExactWithPerLayerTiers) {
  RunConfig config = test::tiny_config();
  config.model.as<models::TransformerCtcOptions>().layers = 3;
  int64_t before = 0;
  for (const char* tiers : {"3 block, none", "2 block, none", "1 block, none", "none"}) {
    const StepSettings settings{.tier = nn::LayerTiers::parse(tiers), .limits = {.max_frames = 60}};
    expect_exact_steps(config, test::kTinyShape, feature_steps(), settings);
    DryRun dry(config, test::kTinyShape, DryRun::Purpose::kTraining);
    const int64_t peak = dry.run_step(feature_steps().back(), settings).peak;
    EXPECT_GT(peak, before) << tiers;
    before = peak;
  }
  config.tier = nn::LayerTiers::parse("40 block, norms");
  EXPECT_THROW(DryRun(config, test::kTinyShape, DryRun::Purpose::kTraining), ConfigError);
}

// The device holds windows instead of the moments, which are on the host.
TEST(StepMemory, IsExactWithStateOnTheHost) {
  for (const Numerics numerics : {Numerics::kFp32, Numerics::kBf16Exact, Numerics::kBf16Lean}) {
    RunConfig config = test::tiny_config();
    config.numerics = numerics;
    config.precision.small_below = 64;
    config.optimizer.state = optim::StateLocation::kHost;
    for (const nn::Tier tier : {nn::Tier::kBlock, nn::Tier::kHost})
      expect_exact_steps(config, test::kTinyShape, feature_steps(),
                         {.tier = tier, .limits = {.max_frames = 60}});
  }
}

TEST(StepMemory, IsExactForOtherNetworks) {
  RunConfig config = test::tiny_config();
  config.model.as<models::TransformerCtcOptions>().norm_first = false;
  config.model.as<models::TransformerCtcOptions>().norm = nn::NormKind::kRms;
  config.model.as<models::TransformerCtcOptions>().positions = nn::PositionKind::kLearned;
  config.model.as<models::TransformerCtcOptions>().max_frames = 64;
  config.model.as<models::TransformerCtcOptions>().subsampling = nn::SubsamplingKind::kStacking;
  config.model.as<models::TransformerCtcOptions>().subsampling_factor = 3;
  config.model.as<models::TransformerCtcOptions>().dropout = 0.0;
  config.model.as<models::TransformerCtcOptions>().attention_right = 0;
  expect_exact_steps(config, test::kTinyShape, feature_steps(), {.tier = nn::Tier::kFfn});
}

// Waveforms: log-mel features are computed in the step.
TEST(StepMemory, IsExactForAudio) {
  std::vector<data::Example> step;
  for (int64_t u = 0; u < 4; ++u) {
    data::Example example = data::make_dry_example(8000 + 3001 * u, /*feature_dim=*/0, 3);
    example.utterance = u;
    for (int64_t i = 0; i < example.rows; ++i)
      example.values.push_back(0.1f * std::sin(0.01f * static_cast<float>(i * (u + 1))));
    step.push_back(std::move(example));
  }
  for (const auto& [name, tier] : nn::kTiers)
    expect_exact_steps(test::tiny_config(), {.vocabulary = 5, .blank = 0}, {step, step},
                       {.tier = tier, .limits = {.max_frames = 40}});
}

TEST(StepMemory, RecognitionIsExactAndTakesLess) {
  const RunConfig config = test::tiny_config();
  const std::vector<data::Example> examples = test::tiny_examples(9, 4);
  std::vector<int64_t> locations(examples.size());
  std::iota(locations.begin(), locations.end(), 0);
  DryRun training(config, test::kTinyShape, DryRun::Purpose::kTraining);
  DryRun recognition(config, test::kTinyShape, DryRun::Purpose::kRecognition);
  const MemoryReport planned = recognition.recognise(examples);
  EXPECT_LT(training.recognise(examples).peak,
            training.run_step(examples, {.tier = nn::Tier::kBlock}).peak);

  const auto arena = std::make_shared<Arena>(RegionKind::kHost, planned.high_water);
  const ArenaGuard guard(at::kCPU, arena);
  const auto model = make_model(config, test::kTinyShape, at::kCPU, /*trains=*/false);
  arena->reset_peak();
  device::HostMemory host(at::kCPU);
  device::StagingBuffer unused(host);
  decode::find_labels(model->recognise(data::make_micro_batch(examples, locations, unused, {})));
  test::expect_equal_memory(planned, arena->report(), "recognition");
  EXPECT_EQ(planned.at_peak[static_cast<size_t>(device::Category::kGradients)], 0);
}

}  // namespace
}  // namespace sotto::train
