// What the budget decides is invisible in the loss, for every family of networks and in every
// numerics that a CPU has: recompute and placement to the bit, splits to 1e-5 in fp32 and within
// the spread of two seeds otherwise, and a checkpoint in the middle to the bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/checkpoint/state_conversion.h"
#include "support/temp_folder.h"
#include "support/tiny_models.h"
#include "support/training.h"

namespace sotto::train {
namespace numerics_test {

using test::Curve;
using test::TinyModel;

constexpr int64_t kSteps = 6;
constexpr int64_t kBatch = 6;

constexpr std::array kOfACpu = {Numerics::kFp32, Numerics::kBf16Exact, Numerics::kBf16Lean,
                                Numerics::kFp16};

struct Case {
  TinyModel tiny;
  Numerics numerics;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const TinyModel& tiny : test::tiny_models()) {
    if (tiny.config.model.family().name == "transformer_ctc") continue;
    for (const Numerics numerics : kOfACpu) all.push_back({.tiny = tiny, .numerics = numerics});
  }
  return all;
}

class AllNumerics : public ::testing::TestWithParam<Case> {
 protected:
  static RunConfig config() {
    RunConfig config = GetParam().tiny.config;
    config.numerics = GetParam().numerics;
    config.precision.small_below = 256;  // no matrix of so small a network would be large
    return config;
  }

  static std::vector<data::Example> examples(int64_t step) {
    return GetParam().tiny.examples(kBatch, static_cast<uint64_t>(50 + step));
  }

  static StepSettings settings(const RunConfig& config) {
    return {.reduction = config.reduction,
            .total_steps = kSteps,
            .loss_scale = config.numerics == Numerics::kFp16 ? 1024.0 : 1.0};
  }

  // Steps first .. last.
  static void train(Learner& learner, StepSettings settings, int64_t first, int64_t last,
                    Curve& curve) {
    for (settings.step = first; settings.step <= last; ++settings.step) {
      const StepResult result = run_step(learner, examples(settings.step), settings);
      ASSERT_TRUE(result.is_updated);
      curve.losses.push_back(result.loss);
    }
  }

  static Curve run(const RunConfig& config, const StepSettings& settings) {
    Learner learner(config, GetParam().tiny.shape, at::kCPU);
    Curve curve;
    train(learner, settings, 1, kSteps, curve);
    curve.weights = test::weights_of(learner);
    return curve;
  }

  static double largest_difference(const Curve& a, const Curve& b) {
    double largest = 0.0;
    for (size_t i = 0; i < a.losses.size(); ++i)
      largest = std::max(largest, std::abs(a.losses[i] - b.losses[i]) / std::abs(b.losses[i]));
    return largest;
  }
};

TEST_P(AllNumerics, TiersAndStateLocationsGiveTheSameBits) {
  RunConfig config = this->config();
  StepSettings settings = this->settings(config);
  settings.tier = nn::Tier::kNone;
  const Curve kept = run(config, settings);
  for (const auto& [name, tier] : nn::kTiers) {
    settings.tier = tier;
    config.optimizer.state =
        tier == nn::Tier::kHost ? optim::StateLocation::kHost : optim::StateLocation::kDevice;
    const Curve curve = run(config, settings);
    EXPECT_EQ(curve.losses, kept.losses) << name;
    EXPECT_TRUE(test::same_bits(curve.weights, kept.weights)) << name;
  }
}

TEST_P(AllNumerics, SplitsGiveTheSameCurve) {
  const RunConfig config = this->config();
  StepSettings settings = this->settings(config);
  const Curve whole = run(config, settings);
  double allowed = 1e-5;
  if (config.numerics != Numerics::kFp32) {
    StepSettings other = settings;
    other.seed = 2;
    allowed = largest_difference(run(config, other), whole);
    ASSERT_GT(allowed, 1e-5) << "two seeds give the same";
  }
  for (const int64_t max_utterances : {3, 1}) {
    settings.limits.max_utterances = max_utterances;
    const double found = largest_difference(run(config, settings), whole);
    if (GetParam().tiny.depends_on_split()) {
      EXPECT_GT(found, 1e-3) << max_utterances;
    } else {
      EXPECT_LE(found, allowed) << max_utterances;
    }
  }
}

TEST_P(AllNumerics, ResumesBitExactlyFromACheckpoint) {
  const RunConfig config = this->config();
  const StepSettings settings = this->settings(config);
  const Curve whole = run(config, settings);
  const test::TempFolder folder;
  Curve parts;
  {
    Learner first(config, GetParam().tiny.shape, at::kCPU);
    train(first, settings, 1, kSteps / 2, parts);
    RunState state;
    state.step = kSteps / 2;
    state.shape = GetParam().tiny.shape;
    write_checkpoint(folder.path() / "half", first,
                     {.state = state,
                      .config = config,
                      .tokenizer = data::Tokenizer(data::Vocabulary::from_texts({"ab"}), {})});
  }
  Learner second(config, GetParam().tiny.shape, at::kCPU);
  EXPECT_FALSE(load_learner(folder.path() / "half", second)) << "nothing is converted";
  train(second, settings, kSteps / 2 + 1, kSteps, parts);
  EXPECT_EQ(parts.losses, whole.losses);
  EXPECT_TRUE(test::same_bits(test::weights_of(second), whole.weights));
}

INSTANTIATE_TEST_SUITE_P(All, AllNumerics, ::testing::ValuesIn(cases()), [](const auto& test) {
  std::string name =
      test.param.tiny.name + "_" + std::string(name_of(test.param.numerics, kNumerics));
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace numerics_test
}  // namespace sotto::train
