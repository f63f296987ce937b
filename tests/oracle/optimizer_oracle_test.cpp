// AdamW against torch.optim.AdamW in double precision, its 8-bit moments against those of
// bitsandbytes, and the schedules against the formulas of transformers and fairseq, by way of
// tests/fixtures/optimizer.json, which make_optimizer.py makes.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "sotto/kernels/optimizer/adamw.h"
#include "sotto/kernels/optimizer/moment_map.h"
#include "sotto/kernels/optimizer/square_sum.h"
#include "sotto/optim/optimizer.h"
#include "sotto/optim/schedule.h"
#include "support/adamw_forms.h"
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

TEST(AdamWOracle, MatchesPyTorch) {
  const json fixture = read_fixture("optimizer");
  ASSERT_GE(fixture.at("adamw").size(), 3u);
  for (const json& row : fixture.at("adamw")) {
    SCOPED_TRACE(row.at("settings").dump());
    at::Tensor weights = fixture_tensor(row.at("weights")).to(at::kFloat);
    const at::Tensor gradients = fixture_tensor(row.at("gradients")).to(at::kFloat);
    const at::Tensor after = fixture_tensor(row.at("after"));
    const int64_t between = row.at("steps_between");
    at::Tensor first = at::zeros_like(weights), second = at::zeros_like(weights);
    ASSERT_GE(gradients.size(0), 50);
    ASSERT_EQ(gradients.size(0), after.size(0) * between);
    for (int64_t i = 0; i < gradients.size(0); ++i) {
      const at::Tensor gradient = gradients[i];
      at::Tensor square_sum = at::zeros({1}, at::kDouble);
      kernels::SquareSum::accumulate(square_sum, gradient);
      AdamW::update({.weights = weights,
                     .gradients = gradient,
                     .first_moment = first,
                     .second_moment = second},
                    coefficients(row.at("settings"), i + 1), square_sum);
      if ((i + 1) % between != 0) continue;
      EXPECT_LE(relative_error(weights, after[i / between]), kAdamWTolerance) << "step " << i + 1;
    }
    EXPECT_LE(relative_error(first, fixture_tensor(row.at("first_moment"))), kAdamWTolerance);
    EXPECT_LE(relative_error(second, fixture_tensor(row.at("second_moment"))), kAdamWTolerance);
  }
}

// Layers that a step left out, and steps whose gradients overflowed, count as in torch: not at all.
TEST(AdamWOracle, CountsStepsLikePyTorch) {
  const json row = read_fixture("optimizer").at("adamw_skipping");
  const json& settings = row.at("settings");
  const at::Tensor weights = fixture_tensor(row.at("weights")).to(at::kFloat);
  const at::Tensor gradients = fixture_tensor(row.at("gradients")).to(at::kFloat);
  const at::Tensor after = fixture_tensor(row.at("after"));
  nn::ParameterStore store;
  store.declare({.name = "layers.0.weight", .shape = {weights.size(1)}});
  store.declare({.name = "head.weight", .shape = {weights.size(1)}});
  store.allocate({});
  optim::Optimizer optimizer(
      store, {.schedule = {.kind = optim::ScheduleKind::kConstant, .rate = settings.at("rate")},
              .beta1 = settings.at("beta1"),
              .beta2 = settings.at("beta2"),
              .epsilon = settings.at("epsilon"),
              .weight_decay = 0.0,
              .clip_norm = 0.0});
  const std::array<nn::Parameter*, 2> parameters = {store.find("layers.0.weight"),
                                                    store.find("head.weight")};
  for (int64_t p = 0; p < 2; ++p) parameters[static_cast<size_t>(p)]->value.copy_(weights[p]);
  for (int64_t i = 0; i < gradients.size(0); ++i) {
    const auto skip = row.at("skips")[static_cast<size_t>(i)].get<std::string>();
    for (int64_t p = 0; p < 2; ++p)
      parameters[static_cast<size_t>(p)]->gradient.copy_(gradients[i][p]);
    if (skip == "none") parameters[1]->gradient[0] = std::numeric_limits<float>::infinity();
    optim::Optimizer::Update update{.step = i + 1};
    if (skip == "left") update.left_out = {"layers.0."};
    optimizer.measure_gradients();
    optimizer.step(update);
    for (int64_t p = 0; p < 2; ++p)
      EXPECT_LE(relative_error(parameters[static_cast<size_t>(p)]->value, after[i][p]),
                kAdamWTolerance)
          << "step " << i + 1 << ", parameter " << p;
  }
}

template <class Code>
void expect_map(const json& row, const kernels::MomentMap& map, Code code_of) {
  const auto values = row.at("values").get<std::vector<float>>();
  ASSERT_EQ(values.size(), map.values.size());
  for (size_t code = 0; code < values.size(); ++code)
    EXPECT_NEAR(map.values[code], values[code], kMomentMapTolerance * std::abs(values[code]))
        << code;
  const auto shares = row.at("shares").get<std::vector<float>>();
  const auto codes = row.at("codes").get<std::vector<int>>();
  ASSERT_GE(shares.size(), 512u);
  for (size_t i = 0; i < shares.size(); ++i) EXPECT_EQ(code_of(shares[i]), codes[i]) << shares[i];
}

// But for what is above 0 and has no code of its own without a sign: with us it has the smallest.
TEST(AdamW8BitOracle, MapsMatchBitsandbytes) {
  const json fixture = read_fixture("optimizer");
  const json& maps = fixture.at("moment_maps");
  expect_map(maps.at("signed"), kernels::kSignedMoments, [](float share) {
    return int{kernels::signed_code(kernels::kSignedMoments.cells.data(), share)};
  });
  const float least = kernels::kUnsignedMoments.values[1] / 2.0f;
  expect_map(maps.at("unsigned"), kernels::kUnsignedMoments, [&](float share) {
    const int code = kernels::unsigned_code(kernels::kUnsignedMoments.cells.data(), share);
    return share < least ? code - 1 : code;
  });
}

// Codes at the border of two may fall to either side, as both round on the way there; the steps of
// such a value then differ by some percent.
TEST(AdamW8BitOracle, StepsMatchBitsandbytes) {
  const json fixture = read_fixture("optimizer");
  const json& row = fixture.at("adamw_8bit");
  const at::Tensor gradients = fixture_tensor(row.at("gradients")).to(at::kFloat);
  AdamWRange range({.has_codes = true}, gradients.size(1));
  range.weights.copy_(fixture_tensor(row.at("weights")));
  for (int64_t i = 0; i < gradients.size(0); ++i) {
    range.gradients.copy_(gradients[i]);
    range.update(coefficients(row.at("settings"), i + 1), range.square_sum());
  }
  const at::Tensor after = fixture_tensor(row.at("after"));
  const at::Tensor error = (range.weights - after).abs() / after.abs().max();
  EXPECT_LE(error.max().item<double>(), kCodedAdamWTolerance);
  EXPECT_LE((error > kAdamWTolerance).sum().item<int64_t>(), error.numel() / 25);
  EXPECT_LE(relative_error(range.first_scales, fixture_tensor(row.at("first_scales"))),
            kCodedAdamWTolerance);
  EXPECT_LE(relative_error(range.second_scales, fixture_tensor(row.at("second_scales"))),
            kCodedAdamWTolerance);
  for (const auto& [ours, name] :
       {std::pair{range.first, "first_codes"}, {range.second, "second_codes"}}) {
    const at::Tensor theirs = fixture_tensor(row.at(name)).to(at::kInt);
    const at::Tensor distance = (ours.to(at::kInt) - theirs).abs();
    EXPECT_LE(distance.max().item<int>(), 1) << name;
    EXPECT_LE((distance != 0).sum().item<int64_t>(), distance.numel() / 100) << name;
  }
}

TEST(ScheduleOracle, RatesMatchTheReferences) {
  const json fixture = read_fixture("optimizer");
  ASSERT_GE(fixture.at("schedules").size(), 18u);
  for (const json& row : fixture.at("schedules")) {
    const optim::ScheduleOptions options{
        .kind = value_of(row.at("kind").get<std::string>(), optim::kScheduleKinds),
        .rate = row.at("rate"),
        .warmup_steps = row.value("warmup_steps", int64_t{0}),
        .warmup_share = row.value("warmup_share", 0.0),
        .hold_share = row.value("hold_share", 0.0),
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

TEST(ScheduleOracle, ReducesTheRateLikePyTorch) {
  const json fixture = read_fixture("optimizer");
  ASSERT_GE(fixture.at("plateaus").size(), 3u);
  for (const json& row : fixture.at("plateaus")) {
    const optim::ScheduleOptions options{.kind = optim::ScheduleKind::kPlateau,
                                         .final_ratio = row.at("final_ratio"),
                                         .plateau_factor = row.at("factor"),
                                         .plateau_patience = row.at("patience")};
    const auto values = row.at("values").get<std::vector<double>>();
    const auto factors = row.at("factors").get<std::vector<double>>();
    optim::Plateau plateau;
    for (size_t i = 0; i < values.size(); ++i) {
      plateau.update(options, values[i]);
      EXPECT_NEAR(plateau.factor, factors[i], schedule_tolerance()) << "evaluation " << i;
    }
  }
}

}  // namespace
}  // namespace sotto::test
