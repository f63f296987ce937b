// Whole training steps: what the dry run says is what is taken, to the byte.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "sotto/data/micro_batch.h"
#include "sotto/device/torch_memory.h"
#include "sotto/train/dry_run.h"
#include "support/tiny_corpus.h"

namespace sotto::train {
namespace {

using device::Arena;
using device::ArenaGuard;
using device::MemoryReport;
using device::RegionKind;

void expect_equal(const MemoryReport& planned, const MemoryReport& measured,
                  const std::string& what) {
  EXPECT_EQ(planned.peak, measured.peak) << what;
  EXPECT_EQ(planned.high_water, measured.high_water) << what;
  EXPECT_EQ(planned.at_peak, measured.at_peak) << what;
  EXPECT_EQ(planned.peak_moment, measured.peak_moment)
      << what << ": " << planned.peak_moment.to_string() << " and "
      << measured.peak_moment.to_string();
  EXPECT_EQ(planned.num_reservations, measured.num_reservations) << what;
  EXPECT_EQ(planned.live, measured.live) << what;
  for (const device::LibraryUse& use : measured.library_calls)
    EXPECT_EQ(use.num_breaches, 0) << use.name << ", " << what;
}

// Runs steps dry and for real, in an arena that has exactly the bytes that the dry run asked for.
void expect_exact_steps(const RunConfig& config, const models::DataShape& shape,
                        const std::vector<std::vector<data::Example>>& steps,
                        StepSettings settings) {
  DryRun dry(config, shape, DryRun::Purpose::kTraining);
  int64_t capacity = 0;
  std::vector<MemoryReport> planned;
  for (const auto& examples : steps) {
    planned.push_back(dry.run_step(examples, settings));
    capacity = std::max(capacity, planned.back().high_water);
  }
  const auto arena = std::make_shared<Arena>(RegionKind::kHost, capacity);
  const ArenaGuard guard(at::kCPU, arena);
  Learner learner(config, shape, at::kCPU);
  for (size_t i = 0; i < steps.size(); ++i) {
    arena->reset_peak();
    EXPECT_TRUE(run_step(learner, steps[i], settings).is_updated);
    expect_equal(planned[i], arena->report(),
                 fmt::format("step {} at tier {}", i + 1, name_of(settings.tier, nn::kTiers)));
    ++settings.step;
  }
}

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

TEST(StepMemory, IsExactForOtherNetworks) {
  RunConfig config = test::tiny_config();
  config.model.norm_first = false;
  config.model.norm = nn::NormKind::kRms;
  config.model.positions = nn::PositionKind::kLearned;
  config.model.max_frames = 64;
  config.model.subsampling = nn::SubsamplingKind::kStacking;
  config.model.subsampling_factor = 3;
  config.model.dropout = 0.0;
  config.model.attention_right = 0;
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
  std::vector<int64_t> places(examples.size());
  std::iota(places.begin(), places.end(), 0);
  DryRun training(config, test::kTinyShape, DryRun::Purpose::kTraining);
  DryRun recognition(config, test::kTinyShape, DryRun::Purpose::kRecognition);
  const MemoryReport planned = recognition.recognise(examples);
  EXPECT_LT(training.recognise(examples).peak,
            training.run_step(examples, {.tier = nn::Tier::kBlock}).peak);

  const auto arena = std::make_shared<Arena>(RegionKind::kHost, planned.high_water);
  const ArenaGuard guard(at::kCPU, arena);
  const auto model = make_model(config, test::kTinyShape, at::kCPU, /*trains=*/false);
  arena->reset_peak();
  device::StagingBuffer unused(0);
  model->recognise(data::make_micro_batch(examples, places, at::kCPU, unused));
  expect_equal(planned, arena->report(), "recognition");
  EXPECT_EQ(planned.at_peak[static_cast<size_t>(device::Category::kGradients)], 0);
}

}  // namespace
}  // namespace sotto::train
