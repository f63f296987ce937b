// Batch norms with trained statistics: running averages move once per update, by all frames of its
// step, and evaluation uses them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/device/torch_memory.h"
#include "sotto/train/step/recovery.h"
#include "support/tiny_models.h"
#include "support/tolerance.h"
#include "support/training.h"

namespace sotto::train {
namespace trained_statistics_test {

using test::relative_error;

constexpr int64_t kUtterances = 5;

RunConfig batch_config() {
  return test::tiny_batch_conformer(nn::InnerNormKind::kBatch);
}

std::vector<data::Example> batch_examples(int64_t step) {
  return test::wave_examples(kUtterances, static_cast<uint64_t>(step));
}

// The running averages of all blocks, means and variances.
std::vector<at::Tensor> averages_of(Learner& learner) {
  std::vector<at::Tensor> averages;
  for (const nn::Parameter& parameter : learner.model->parameters().parameters()) {
    if (parameter.spec.name.find(".running_") != std::string::npos)
      averages.push_back(parameter.value.clone());
  }
  return averages;
}

// The averages after one step from the initial weights.
std::vector<at::Tensor> averages_after_a_step(int64_t max_utterances) {
  Learner learner(batch_config(), test::kWaveShape, at::kCPU);
  const StepSettings settings{.limits = {.max_utterances = max_utterances}};
  EXPECT_TRUE(run_step(learner, batch_examples(1), settings).is_updated);
  return averages_of(learner);
}

TEST(TrainedStatistics, MoveOncePerStepByAllOfItsFrames) {
  Learner initial(batch_config(), test::kWaveShape, at::kCPU);
  const std::vector<at::Tensor> before = averages_of(initial);
  ASSERT_EQ(before.size(), 4u) << "of two blocks";
  const std::vector<at::Tensor> whole = averages_after_a_step(kUtterances);
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_GT((whole[i] - before[i]).abs().max().item<double>(), 1e-3) << i;
  for (const int64_t max_utterances : {3, 2, 1}) {
    const std::vector<at::Tensor> split = averages_after_a_step(max_utterances);
    // What the first norm sees does not depend on the split; what the second sees does.
    for (const size_t i : {0, 1})
      EXPECT_LT(relative_error(split[i], whole[i]), 1e-5) << max_utterances << ", average " << i;
    EXPECT_GT(relative_error(split[2], whole[2]), 1e-4) << max_utterances;
  }
}

// Two steps; the arena throws at a reservation of the first.
std::vector<at::Tensor> weights_after_failure(int64_t failing, device::Arena& arena) {
  Learner learner(batch_config(), test::kWaveShape, at::kCPU);
  StepSettings settings{.limits = {.max_utterances = 2}};
  int64_t num_restarts = 0;
  if (failing > 0) arena.inject_failure(failing);
  for (settings.step = 1; settings.step <= 2; ++settings.step)
    run_step_with_retries(learner, batch_examples(settings.step), settings, arena,
                          {.restarted = [&](const Restart&) { ++num_restarts; }});
  EXPECT_EQ(num_restarts, failing > 0 ? 1 : 0);
  return test::weights_of(learner);
}

TEST(TrainedStatistics, AreCommittedOnceByAStepThatRunsAgain) {
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, int64_t{64} << 20);
  const device::ArenaGuard guard(at::kCPU, arena);
  const std::vector<at::Tensor> undisturbed = weights_after_failure(0, *arena);
  int64_t num_reservations = 0;
  {
    Learner learner(batch_config(), test::kWaveShape, at::kCPU);
    arena->reset_peak();
    run_step(learner, batch_examples(1), {.limits = {.max_utterances = 2}});
    num_reservations = arena->report().num_reservations;
  }
  ASSERT_GT(num_reservations, 200);
  for (int64_t n = 1; n <= num_reservations; n += 29)
    ASSERT_TRUE(test::same_bits(weights_after_failure(n, *arena), undisturbed))
        << "reservation " << n;
}

TEST(TrainedStatistics, AreNotCommittedWithoutAnUpdate) {
  RunConfig config = batch_config();
  config.numerics = Numerics::kFp16;
  const auto run = [&](bool overflows_first) {
    Learner learner(config, test::kWaveShape, at::kCPU);
    const std::vector<at::Tensor> before = test::weights_of(learner);
    if (overflows_first) {
      // Beyond what fp16 holds.
      const StepSettings settings{.loss_scale = std::ldexp(1.0, 40)};
      EXPECT_FALSE(run_step(learner, batch_examples(7), settings).is_updated);
      EXPECT_TRUE(test::same_bits(test::weights_of(learner), before));
    }
    EXPECT_TRUE(run_step(learner, batch_examples(1), {.loss_scale = 64.0}).is_updated);
    EXPECT_FALSE(test::same_bits(averages_of(learner), before));
    return averages_of(learner);
  };
  // Nor is anything of it left for the next step.
  EXPECT_TRUE(test::same_bits(run(true), run(false)));
}

at::Tensor recognised_losses(models::Model& model, const std::vector<data::Example>& examples,
                             const std::vector<int64_t>& indices) {
  device::HostMemory host(at::kCPU);
  device::StagingBuffer staging(host);
  const data::MicroBatch batch = data::make_micro_batch(examples, indices, staging, {});
  return model.recognise(batch).losses.terms.front();
}

TEST(TrainedStatistics, AreConstantsInEvaluation) {
  const std::vector<data::Example> examples = batch_examples(9);
  Learner trained(batch_config(), test::kWaveShape, at::kCPU);
  for (StepSettings settings{.total_steps = 3}; settings.step <= 3; ++settings.step)
    run_step(trained, batch_examples(settings.step), settings);
  // The same network, whose statistics never change.
  RunConfig frozen_config = batch_config();
  frozen_config.model.as<models::ConformerOptions>().convolution_norm =
      nn::InnerNormKind::kFrozenBatch;
  Learner frozen(frozen_config, test::kWaveShape, at::kCPU);
  for (nn::Parameter& parameter : frozen.model->parameters().parameters())
    parameter.value.copy_(trained.model->parameters().find(parameter.spec.name)->value);

  const std::vector<at::Tensor> averages = averages_of(trained);
  const at::Tensor together = recognised_losses(*trained.model, examples, {0, 1, 2, 3, 4});
  EXPECT_TRUE(at::equal(together, recognised_losses(*frozen.model, examples, {0, 1, 2, 3, 4})));
  for (int64_t u = 0; u < kUtterances; ++u)
    EXPECT_LT(
        relative_error(recognised_losses(*trained.model, examples, {u}), together.narrow(0, u, 1)),
        1e-5)
        << "alone, utterance " << u;
  EXPECT_TRUE(test::same_bits(averages_of(trained), averages));
  // They matter.
  trained.model->parameters().find("layers.0.convolution.inner_norm.running_mean")->value.add_(0.5);
  EXPECT_GT(relative_error(recognised_losses(*trained.model, examples, {0, 1, 2, 3, 4}), together),
            1e-4);
}

}  // namespace trained_statistics_test
}  // namespace sotto::train
