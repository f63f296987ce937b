// Two hundred random networks, steps and splits: the dry run says what is taken, to the byte, and
// the split does not show in the loss.
#include <gtest/gtest.h>

#include <cmath>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/device/torch_memory.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/train/step/dry_run.h"
#include "support/draws.h"
#include "support/tiny_corpus.h"

namespace sotto::train {
namespace {

using test::Draws;

RunConfig random_config(Draws& draws) {
  RunConfig config = test::tiny_config();
  models::TransformerCtcOptions& model = config.model.as<models::TransformerCtcOptions>();
  model.layers = draws.from(1, 4);
  model.heads = draws.from(1, 4);
  model.width = model.heads * 2 * draws.from(2, 12);
  model.hidden = draws.from(8, 130);
  model.dropout = draws.coin() ? 0.1 : 0.0;
  model.activation = draws.one_of(nn::kActivations);
  model.norm = draws.one_of(nn::kNormKinds);
  model.norm_first = draws.coin();
  model.positions = draws.one_of(nn::kPositionKinds);
  model.max_frames = 400;
  model.subsampling = draws.one_of(nn::kSubsamplingKinds);
  model.subsampling_factor = model.subsampling == nn::SubsamplingKind::kConvolution
                                 ? 2 * draws.from(1, 2)
                                 : draws.from(1, 5);
  if (draws.coin()) model.attention_left = draws.from(0, 9);
  if (draws.coin()) model.attention_right = draws.from(0, 9);
  constexpr std::array kOnTheCpu = {
      Named{"fp32", Numerics::kFp32}, Named{"bf16-exact", Numerics::kBf16Exact},
      Named{"bf16-lean", Numerics::kBf16Lean}, Named{"fp16", Numerics::kFp16}};
  config.numerics = draws.one_of(kOnTheCpu);
  if (draws.coin()) config.precision.small_below = 1;
  return config;
}

std::vector<data::Example> random_examples(Draws& draws, bool is_audio) {
  std::vector<data::Example> examples;
  const int64_t count = draws.from(1, 9);
  for (int64_t u = 0; u < count; ++u) {
    const int64_t rows = is_audio ? draws.from(2000, 12'000) : draws.from(10, 150);
    data::Example example =
        data::make_dry_example(rows, is_audio ? 0 : test::kTinyFeatures, draws.from(0, 4));
    example.utterance = u;
    const int64_t values = rows * (is_audio ? 1 : test::kTinyFeatures);
    for (int64_t i = 0; i < values; ++i)
      example.values.push_back(0.3f * std::sin(0.37f * static_cast<float>(i * (u + 2))));
    examples.push_back(std::move(example));
  }
  return examples;
}

TEST(RandomSteps, UseThePredictedMemoryAndGiveTheSameLoss) {
  for (uint64_t number = 0; number < 200; ++number) {
    SCOPED_TRACE("case " + std::to_string(number));
    Draws draws(200, number);
    const RunConfig config = random_config(draws);
    const bool is_audio = draws.coin();
    const models::DataShape shape{
        .vocabulary = 5, .blank = 0, .feature_dim = is_audio ? 0 : test::kTinyFeatures};
    const std::vector<data::Example> examples = random_examples(draws, is_audio);
    StepSettings settings{.tier = draws.one_of(nn::kTiers),
                          .limits = {.max_utterances = draws.from(1, 4)}};

    DryRun dry(config, shape, DryRun::Purpose::kTraining);
    const device::MemoryReport planned = dry.run_step(examples, settings);
    const auto arena =
        std::make_shared<device::Arena>(device::RegionKind::kHost, planned.high_water);
    double split_loss = 0.0;
    {
      const device::ArenaGuard guard(at::kCPU, arena);
      Learner learner(config, shape, at::kCPU);
      arena->reset_peak();
      split_loss = run_step(learner, examples, settings).loss;
    }
    const device::MemoryReport measured = arena->report();
    EXPECT_EQ(planned.peak, measured.peak);
    EXPECT_EQ(planned.high_water, measured.high_water);
    EXPECT_EQ(planned.at_peak, measured.at_peak);
    EXPECT_EQ(planned.num_reservations, measured.num_reservations);
    for (const device::LibraryUse& use : measured.library_calls)
      EXPECT_EQ(use.num_breaches, 0) << use.name;

    Learner learner(config, shape, at::kCPU);
    settings.limits = {};
    const double whole_loss = run_step(learner, examples, settings).loss;
    const double tolerance = config.numerics == Numerics::kFp32 ? 1e-5 : 2e-2;
    EXPECT_NEAR(split_loss, whole_loss, tolerance * std::max(1.0, std::abs(whole_loss)));
  }
}

}  // namespace
}  // namespace sotto::train
