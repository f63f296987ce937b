// Out of memory at every reservation of a step of waveforms, in two micro-batches, at every tier:
// the step is run again, to the bit.
#include <gtest/gtest.h>

#include <cmath>

#include "sotto/data/batch/micro_batch.h"
#include "sotto/device/torch_memory.h"
#include "sotto/train/step/recovery.h"
#include "support/training.h"

namespace sotto::train {
namespace {

std::vector<data::Example> waveforms() {
  std::vector<data::Example> examples;
  for (int64_t u = 0; u < 4; ++u) {
    data::Example example = data::make_dry_example(6000 + 1501 * u, /*feature_dim=*/0, 3);
    example.utterance = u;
    for (int64_t i = 0; i < example.rows; ++i)
      example.values.push_back(0.1f * std::sin(0.01f * static_cast<float>(i * (u + 1))));
    examples.push_back(std::move(example));
  }
  return examples;
}

TEST(EveryReservation, MayFail) {
  const std::vector<data::Example> examples = waveforms();
  for (const auto& [name, tier] : nn::kTiers) {
    const auto arena =
        std::make_shared<device::Arena>(device::RegionKind::kHost, int64_t{256} << 20);
    const device::ArenaGuard guard(at::kCPU, arena);
    int64_t num_reservations = 0;
    // One step, of which the given reservation fails; 0: none.
    const auto run = [&, tier = tier](int64_t failing) {
      Learner learner(test::tiny_config(), {.vocabulary = 5, .blank = 0}, at::kCPU);
      StepSettings settings{.tier = tier, .limits = {.max_utterances = 2}};
      arena->reset_peak();
      if (failing > 0) arena->inject_failure(failing);
      int64_t num_restarts = 0;
      run_step_with_retries(learner, examples, settings, *arena,
                            {.restarted = [&](const Restart&) { ++num_restarts; }});
      num_reservations = arena->report().num_reservations;
      EXPECT_EQ(num_restarts, failing > 0 ? 1 : 0) << name << ", reservation " << failing;
      return test::weights_of(learner);
    };
    const std::vector<at::Tensor> undisturbed = run(0);
    const int64_t last = num_reservations;
    ASSERT_GT(last, 150);
    for (int64_t n = 1; n <= last; ++n)
      ASSERT_TRUE(test::same_bits(run(n), undisturbed)) << name << ", reservation " << n;
  }
}

}  // namespace
}  // namespace sotto::train
