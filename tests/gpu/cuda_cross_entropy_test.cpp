// Cross entropy on a GPU against the CPU, for vocabularies that leave rows beginning where no wide
// access may; and logits that are not finite.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sotto/kernels/loss/cross_entropy.h"
#include "support/gpu.h"
#include "support/kernel_case_tools.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace {

using kernels::CrossEntropy;

class CudaCrossEntropy : public ::testing::Test {
 protected:
  void SetUp() override { SOTTO_SKIP_WITHOUT_GPU(); }
};

struct Problem {
  std::vector<int64_t> lengths;
  std::vector<std::vector<int32_t>> targets;
  at::Tensor x;       // [N, D]
  at::Tensor weight;  // [V, D]
};

Problem draw_problem(int64_t width, int64_t vocabulary, at::ScalarType type) {
  Problem problem{.lengths = {120, 1, 79}, .targets = {}, .x = {}, .weight = {}};
  int64_t row = 0;
  for (const int64_t length : problem.lengths) {
    problem.targets.emplace_back();
    for (int64_t i = 0; i < length; ++i, ++row)
      problem.targets.back().push_back(static_cast<int32_t>(row * 7'919 % vocabulary));
  }
  problem.x = random_values({row, width}, 1).to(type);
  const double scale = 2.0 / std::sqrt(static_cast<double>(width));
  problem.weight = (random_values({vocabulary, width}, 2) * scale).to(type);
  return problem;
}

struct Outcome {
  at::Tensor loss;
  at::Tensor evaluated;
  at::Tensor dx;
  at::Tensor grad_weight;
};

Outcome run(const Problem& problem, const CrossEntropy::Options& options,
            const at::Device& device) {
  const kernels::Packing packing(problem.lengths, device);
  const kernels::Labels targets(problem.targets, device);
  const at::Tensor x = problem.x.to(device), weight = problem.weight.to(device);
  at::Tensor grad_weight = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
  const CrossEntropy::Inputs in{.x = x, .weight = weight, .packing = packing, .targets = targets};
  const at::Tensor evaluated = CrossEntropy::evaluate(in, options);
  const CrossEntropy::Result result =
      CrossEntropy::forward(in, std::vector<float>{1.0f, 0.5f, 2.0f}, &grad_weight, options);
  return {.loss = result.loss.cpu(),
          .evaluated = evaluated.cpu(),
          .dx = result.dx.cpu(),
          .grad_weight = grad_weight.cpu()};
}

void expect_agreement(const Problem& problem, const CrossEntropy::Options& options) {
  const Outcome ours = run(problem, options, at::kCUDA);
  const Outcome truth = run(problem, options, at::kCPU);
  const double tolerance = cuda_tolerance(problem.x.scalar_type());
  EXPECT_TRUE(at::equal(ours.loss, ours.evaluated));
  EXPECT_LE(relative_error(ours.loss, truth.loss), tolerance);
  EXPECT_LE(relative_error(ours.dx, truth.dx), tolerance);
  EXPECT_LE(relative_error(ours.grad_weight, truth.grad_weight), tolerance);
}

TEST_F(CudaCrossEntropy, AgreesWithTheCpuForAnyVocabulary) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t vocabulary : {2, 31, 1'000, 5'003}) {
      for (const double smoothing : {0.0, 0.1}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + ", " + std::to_string(vocabulary));
        Problem problem = draw_problem(24, vocabulary, type);
        expect_agreement(problem, {.smoothing = smoothing});
        for (size_t i = 0; i < 120; i += 3) problem.targets[0][i] = CrossEntropy::kNoTarget;
        expect_agreement(problem, {.smoothing = smoothing, .chunk_bytes = 0});
      }
    }
  }
}

TEST_F(CudaCrossEntropy, AgreesWithTheCpuAtLanguageModelVocabularies) {
  for (const int64_t vocabulary : {50'000, 50'257}) {
    SCOPED_TRACE(vocabulary);
    expect_agreement(draw_problem(64, vocabulary, at::kBFloat16), {.smoothing = 0.1});
  }
}

TEST_F(CudaCrossEntropy, IsSafeForExtremeLogits) {
  Problem problem = draw_problem(50, 50, at::kFloat);
  problem.x = (problem.x.sign() * 1e4 + (4.0 * problem.x).round()).contiguous();
  problem.weight = at::eye(50);
  expect_agreement(problem, {.smoothing = 0.1});
}

TEST_F(CudaCrossEntropy, NonFiniteLogitsAffectOnlyTheirUtterance) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Problem problem = draw_problem(301, 301, at::kFloat);
  problem.weight = at::eye(301) * 2.0;
  const Outcome clean = run(problem, {}, at::kCUDA);
  for (const float bad : {std::nanf(""), kInfinity, 3e38f, -3e38f}) {
    for (const int64_t column : {0, 8, 300}) {
      SCOPED_TRACE(std::to_string(bad) + " in column " + std::to_string(column));
      Problem broken = problem;
      broken.x = problem.x.clone();
      broken.x[120][column] = bad;
      const Outcome ours = run(broken, {}, at::kCUDA);
      EXPECT_TRUE(std::isnan(ours.loss[1].item<float>()));
      EXPECT_TRUE(at::isnan(ours.dx[120]).all().item<bool>());
      for (const int64_t u : {0, 2})
        EXPECT_EQ(ours.loss[u].item<float>(), clean.loss[u].item<float>());
      EXPECT_TRUE(at::equal(ours.dx.narrow(0, 0, 120), clean.dx.narrow(0, 0, 120)));
      EXPECT_TRUE(at::equal(ours.dx.narrow(0, 121, 79), clean.dx.narrow(0, 121, 79)));
    }
  }
}

TEST_F(CudaCrossEntropy, GivesTheSameBitsTwice) {
  const Problem problem = draw_problem(64, 5'003, at::kBFloat16);
  const Outcome first = run(problem, {.chunk_bytes = 0}, at::kCUDA);
  const Outcome second = run(problem, {.chunk_bytes = 0}, at::kCUDA);
  EXPECT_TRUE(at::equal(first.loss, second.loss));
  EXPECT_TRUE(at::equal(first.dx, second.dx));
  EXPECT_TRUE(at::equal(first.grad_weight, second.grad_weight));
}

}  // namespace
}  // namespace sotto::test
