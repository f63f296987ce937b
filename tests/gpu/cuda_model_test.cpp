// wav2vec2 and the language model on a GPU: the CPU's numbers, and the bytes that the dry run said.
#include <gtest/gtest.h>

#include "support/exact_steps.h"
#include "support/gpu.h"
#include "support/tiny_models.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace {

constexpr int64_t kSteps = 10;

std::vector<double> losses_of(const TinyModel& tiny, train::Numerics numerics,
                              const at::Device& device, train::StepSettings settings) {
  train::RunConfig config = tiny.config;
  config.numerics = numerics;
  train::apply_arithmetic(train::preset_of(numerics));
  train::Learner learner(config, tiny.shape, device, int64_t{64} << 20);
  settings.reduction = config.reduction;
  settings.total_steps = kSteps;
  if (numerics == train::Numerics::kFp16) settings.loss_scale = 1024.0;
  std::vector<double> losses;
  for (settings.step = 1; settings.step <= kSteps; ++settings.step)
    losses.push_back(train::run_step(learner, tiny.examples(8, 5), settings).loss);
  return losses;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance,
                 const std::string& what) {
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], tolerance * std::abs(b[i])) << what << ", step " << i + 1;
}

class CudaModels : public ::testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override { SOTTO_SKIP_WITHOUT_GPU(); }
};

TEST_P(CudaModels, AgreeWithTheCpu) {
  const train::StepSettings split{.limits = {.max_utterances = 3}};
  const std::vector<double> on_cpu = losses_of(GetParam(), train::Numerics::kFp32, at::kCPU, {});
  const std::vector<double> split_on_cpu =
      GetParam().depends_on_split() ? losses_of(GetParam(), train::Numerics::kFp32, at::kCPU, split)
                                    : on_cpu;
  const device::TargetScope target(gpu()->target);
  for (const auto& [name, numerics] : train::kNumerics) {
    const double tolerance =
        numerics == train::Numerics::kFp32 ? kCudaCurveTolerance : kHalfCurveTolerance;
    for (const nn::Tier tier : {nn::Tier::kNone, nn::Tier::kNorms, nn::Tier::kBlock}) {
      expect_near(losses_of(GetParam(), numerics, gpu()->torch, {.tier = tier}), on_cpu, tolerance,
                  std::string(name));
    }
    expect_near(losses_of(GetParam(), numerics, gpu()->torch, split), split_on_cpu, tolerance,
                std::string(name) + ", split");
  }
}

TEST_P(CudaModels, UseThePredictedMemory) {
  const TinyModel& tiny = GetParam();
  for (const train::Numerics numerics : {train::Numerics::kFp32, train::Numerics::kBf16Exact,
                                         train::Numerics::kBf16Lean, train::Numerics::kFp16}) {
    train::apply_arithmetic(train::preset_of(numerics));
    train::RunConfig config = tiny.config;
    config.numerics = numerics;
    config.precision.small_below = 1;
    for (const auto& [name, tier] : nn::kTiers)
      expect_exact_steps(config, tiny.shape, {tiny.examples(5, 1), tiny.examples(7, 2)},
                         {.tier = tier, .limits = {.max_frames = 60}}, *gpu());
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaModels, ::testing::ValuesIn(tiny_models()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sotto::test
