// With `deterministic: true` a run on a GPU gives the same bits each time: at every tier, after an
// interruption, and in the same bytes as planned.
#include <gtest/gtest.h>

#include "sotto/train/run/trainer.h"
#include "support/gpu.h"
#include "support/temp_folder.h"
#include "support/training.h"

namespace sotto::train {
namespace {

using test::gpu;

class CudaDeterminism : public ::testing::TestWithParam<Numerics> {
 protected:
  void SetUp() override {
    if (!gpu(/*is_deterministic=*/true)) GTEST_SKIP() << "no GPU, or a build without CUDA";
    test::write_tiny_corpus(folder_.path(), "train", 48, 1);
  }

  RunConfig config() const {
    RunConfig config = test::tiny_config();
    config.numerics = GetParam();
    config.deterministic = true;
    config.data.train = folder_.path() / "train.jsonl";
    config.epochs = 2;
    config.checkpoint_every = 3;
    config.release_caches_every = release_caches_every_;
    return config;
  }

  // Trains in a folder of that name; ends behind `stop_behind` steps, 0: at the end. Goes on from
  // `resume_from` where that is given.
  std::vector<at::Tensor> train(const std::string& name, int64_t stop_behind = 0,
                                const std::optional<std::filesystem::path>& resume_from = {}) {
    int64_t last_step = 0;
    bool is_exact = false;
    RunEvents events;
    events.stepped = [&](const StepReport& report) { last_step = report.step; };
    events.compared = [&](const MemoryComparison& both) { is_exact = both.is_equal; };
    events.released = [&](int64_t, const ReleasedCaches& released) {
      released_bytes_ += released.host_bytes;
    };
    events.should_stop = [&] { return stop_behind > 0 && last_step >= stop_behind; };
    Trainer trainer({.config = config(),
                     .folder = folder_.path() / name,
                     .budget_bytes = int64_t{2} << 30,
                     .device = *gpu(),
                     .resume_from = resume_from},
                    events);
    trainer.run();
    EXPECT_TRUE(is_exact) << "planned and measured bytes of the first step differ";
    std::vector<at::Tensor> weights;
    for (const at::Tensor& tensor : test::weights_of(trainer.learner()))
      weights.push_back(tensor.cpu());
    return weights;
  }

  test::TempFolder folder_;
  int64_t release_caches_every_ = 0;
  int64_t released_bytes_ = 0;
};

// Page-locked memory is taken anew at the next step.
TEST_P(CudaDeterminism, ReleasingCachesChangesNothing) {
  const std::vector<at::Tensor> kept = train("kept");
  EXPECT_EQ(released_bytes_, 0);
  release_caches_every_ = 1;
  EXPECT_TRUE(test::same_bits(train("released"), kept));
  EXPECT_GT(released_bytes_, 0);
}

TEST_P(CudaDeterminism, RepeatedAndResumedRunsAreEqual) {
  const std::vector<at::Tensor> first = train("first");
  EXPECT_TRUE(test::same_bits(train("second"), first));
  train("stopped", 5);
  const std::vector<std::filesystem::path> saved = list_checkpoints(folder_.path() / "stopped");
  ASSERT_FALSE(saved.empty());
  EXPECT_TRUE(test::same_bits(train("stopped", 0, saved.back()), first));
}

TEST_P(CudaDeterminism, TiersGiveTheSameBits) {
  apply_arithmetic(preset_of(GetParam()));
  const device::TargetScope target(gpu()->target);
  const auto run = [&](nn::Tier tier) {
    return test::run_curve(config(), {.tier = tier}, 5, 16, gpu()->torch);
  };
  const test::Curve kept = run(nn::Tier::kNone);
  for (const auto& [name, tier] : nn::kTiers) {
    const test::Curve curve = run(tier);
    EXPECT_EQ(curve.losses, kept.losses) << name;
    EXPECT_TRUE(test::same_bits(curve.weights, kept.weights)) << name;
  }
}

// State that streams from the host and back, beside the next forward.
TEST_P(CudaDeterminism, StateOnTheHostGivesTheSameBits) {
  apply_arithmetic(preset_of(GetParam()));
  const device::TargetScope target(gpu()->target);
  const auto run = [&](optim::StateLocation location) {
    RunConfig own = config();
    own.optimizer.state = location;
    return test::run_curve(own, {.tier = nn::Tier::kBlock}, 5, 16, gpu()->torch);
  };
  const test::Curve on_device = run(optim::StateLocation::kDevice);
  const test::Curve on_host = run(optim::StateLocation::kHost);
  EXPECT_EQ(on_host.losses, on_device.losses);
  EXPECT_TRUE(test::same_bits(on_host.weights, on_device.weights));
}

INSTANTIATE_TEST_SUITE_P(Numerics, CudaDeterminism,
                         ::testing::Values(Numerics::kFp32, Numerics::kBf16Exact,
                                           Numerics::kBf16Lean, Numerics::kFp16),
                         [](const auto& test) {
                           std::string name(name_of(test.param, kNumerics));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace sotto::train
