// AdamW against torch.optim.AdamW in double precision, and the schedules against transformers'
// formulas, by way of tests/fixtures/optimizer.json, which make_optimizer.py makes.
#include <gtest/gtest.h>

#include "sotto/kernels/adamw.h"
#include "sotto/kernels/square_sum.h"
#include "sotto/optim/schedule.h"
#include "support/fixture.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace {

using kernels::AdamW;
using nlohmann::json;

AdamW::Coefficients coefficients(const json& settings, int64_t step) {
  return {.rate = settings.at("rate"),
          .beta1 = settings.at("beta1"),
          .beta2 = settings.at("beta2"),
          .epsilon = settings.at("epsilon"),
          .weight_decay = settings.at("weight_decay"),
          .step = step,
          .gradient_scale = settings.at("gradient_scale")};
}

TEST(AdamWOracle, TakesTheStepsOfPyTorch) {
  const json fixture = read_fixture("optimizer");
  ASSERT_GE(fixture.at("adamw").size(), 3u);
  for (const json& row : fixture.at("adamw")) {
    SCOPED_TRACE(row.at("settings").dump());
    at::Tensor weights = fixture_tensor(row.at("weights")).to(at::kFloat);
    const at::Tensor gradients = fixture_tensor(row.at("gradients")).to(at::kFloat);
    const at::Tensor after = fixture_tensor(row.at("after"));
    at::Tensor first = at::zeros_like(weights), second = at::zeros_like(weights);
    ASSERT_GE(gradients.size(0), 10);
    ASSERT_EQ(gradients.sizes(), after.sizes());
    for (int64_t i = 0; i < gradients.size(0); ++i) {
      const at::Tensor gradient = gradients[i];
      at::Tensor square_sum = at::zeros({1}, at::kDouble);
      kernels::SquareSum::accumulate(square_sum, gradient);
      AdamW::update({.weights = weights,
                     .gradients = gradient,
                     .first_moment = first,
                     .second_moment = second},
                    coefficients(row.at("settings"), i + 1), square_sum);
      EXPECT_LE(relative_error(weights, after[i]), kernel_tolerance(at::kFloat))
          << "step " << i + 1;
    }
    EXPECT_LE(relative_error(first, fixture_tensor(row.at("first_moment"))),
              kernel_tolerance(at::kFloat));
    EXPECT_LE(relative_error(second, fixture_tensor(row.at("second_moment"))),
              kernel_tolerance(at::kFloat));
  }
}

TEST(ScheduleOracle, GivesTheRatesOfTransformers) {
  const json fixture = read_fixture("optimizer");
  ASSERT_GE(fixture.at("schedules").size(), 16u);
  for (const json& row : fixture.at("schedules")) {
    const optim::ScheduleOptions options{
        .kind = value_of(row.at("kind").get<std::string>(), optim::kScheduleKinds),
        .rate = row.at("rate"),
        .warmup_steps = row.at("warmup_steps"),
        .final_ratio = row.at("final_ratio")};
    const auto rates = row.at("rates").get<std::vector<double>>();
    for (size_t i = 0; i < rates.size(); ++i) {
      const double ours =
          optim::rate_at(options, static_cast<int64_t>(i) + 1, row.at("total_steps"));
      EXPECT_NEAR(ours, rates[i], schedule_tolerance() * options.rate)
          << row.at("kind") << " step " << i + 1;
    }
  }
}

}  // namespace
}  // namespace sotto::test
