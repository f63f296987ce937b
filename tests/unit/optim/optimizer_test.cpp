#include "sotto/optim/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "sotto/device/placement.h"
#include "sotto/device/torch_memory.h"

namespace sotto::optim {
namespace {

constexpr OptimizerOptions kOptions{.schedule = {.kind = ScheduleKind::kConstant, .rate = 1e-4},
                                    .clip_norm = 2.0};

struct Network {
  explicit Network(at::ScalarType type, const at::Device& device = at::kCPU) {
    store.declare({.name = "a.weight", .shape = {100, 70}, .deviation = 0.5});
    store.declare({.name = "a.bias", .shape = {100}});
    store.declare({.name = "b.weight", .shape = {50, 90}, .deviation = 0.5});
    store.allocate({.device = device, .weights = type});
  }

  void set_gradients(double value) {
    for (nn::Parameter& parameter : store.parameters()) parameter.gradient.fill_(value);
  }

  nn::ParameterStore store;
};

TEST(Optimizer, TakesTheNormOfAllGradients) {
  Network network(at::kFloat);
  Optimizer optimizer(network.store, kOptions);
  network.set_gradients(-0.5);
  optimizer.measure_gradients();
  const double norm = 0.5 * std::sqrt(100.0 * 70.0 + 100.0 + 50.0 * 90.0);
  EXPECT_NEAR(optimizer.gradient_norm(), norm, 1e-12 * norm);
  optimizer.measure_gradients();
  EXPECT_NEAR(optimizer.gradient_norm(), norm, 1e-12 * norm) << "measured anew";
}

// The limit is one of the gradients as they count, whatever the loss was scaled by.
TEST(Optimizer, ClipsScaledGradients) {
  for (const double loss_scale : {1.0, 1024.0}) {
    Network network(at::kFloat);
    Optimizer optimizer(network.store, kOptions);
    network.set_gradients(loss_scale);
    optimizer.measure_gradients();
    optimizer.step({.gradient_scale = 1.0 / loss_scale});
    const double clipped = 2.0 / (optimizer.gradient_norm() / loss_scale);
    const Optimizer::State state = optimizer.states().front();
    EXPECT_NEAR(state.first_moment[0][0].item<double>(), 0.1 * clipped, 1e-8);
  }
}

TEST(Optimizer, ChangesNothingWhereTheNormIsNotFinite) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Network network(type);
    Optimizer optimizer(network.store, kOptions);
    network.set_gradients(1.0);
    optimizer.measure_gradients();
    optimizer.step({});
    std::vector<at::Tensor> before;
    for (const nn::ParameterRange& range : network.store.ranges())
      before.push_back(range.values.clone());
    network.store.find("a.bias")->gradient[3] = std::numeric_limits<float>::quiet_NaN();
    optimizer.measure_gradients();
    optimizer.step({.step = 2});
    EXPECT_TRUE(std::isnan(optimizer.gradient_norm()));
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(at::equal(network.store.ranges()[i].values, before[i]));
  }
}

// Steps too small for bf16 are not lost.
TEST(Optimizer, KeepsWhatBfloat16LeavesOut) {
  Network whole(at::kFloat);
  Network split(at::kBFloat16);
  for (size_t i = 0; i < whole.store.ranges().size(); ++i)
    at::Tensor(whole.store.ranges()[i].values).copy_(split.store.ranges()[i].values);
  const at::Tensor before = whole.store.find("a.weight")->value.clone();
  Optimizer of_whole(whole.store, kOptions);
  Optimizer of_split(split.store, kOptions);
  for (int64_t step = 1; step <= 100; ++step) {
    for (auto [network, optimizer] : {std::pair{&whole, &of_whole}, {&split, &of_split}}) {
      network->set_gradients(0.01);
      optimizer->measure_gradients();
      optimizer->step({.step = step, .total_steps = 100});
    }
  }
  const at::Tensor moved = before - whole.store.find("a.weight")->value;
  EXPECT_GT(moved.min().item<double>(), 9e-3);
  const at::Tensor rounded = split.store.find("a.weight")->value.to(at::kFloat);
  EXPECT_TRUE(at::allclose(rounded, whole.store.find("a.weight")->value, 0x1.01p-8, 1e-6));
}

TEST(Optimizer, HasARemainderForBfloat16Alone) {
  Network whole(at::kFloat);
  for (const Optimizer::State& state : Optimizer(whole.store, kOptions).states())
    EXPECT_FALSE(state.remainder.defined());
  Network split(at::kBFloat16);
  Optimizer optimizer(split.store, kOptions);
  split.set_gradients(1.0);
  optimizer.measure_gradients();
  optimizer.step({});
  const std::vector<Optimizer::State> states = optimizer.states();
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(states[0].name, "a.weight");
  EXPECT_EQ(states[0].remainder.scalar_type(), at::kShort);
  EXPECT_EQ(states[0].remainder.sizes(), states[0].first_moment.sizes());
  EXPECT_TRUE((states[2].remainder != 0).any().item<bool>());
  EXPECT_FALSE(states[1].remainder.defined()) << "a vector is fp32";
}

TEST(Optimizer, AllocatesNoMoreThanItSays) {
  const auto arena =
      std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
  const device::ArenaGuard guard(at::kMeta, arena);
  Network network(at::kBFloat16, at::kMeta);
  Optimizer optimizer(network.store, kOptions);
  // Ranges of 7,040 + 4,544 and of 128 values.
  const auto block = [](int64_t bytes) { return device::Placement::rounded(bytes); };
  const int64_t expected =
      2 * block(11'584 * 4) + block(11'584 * 2) + 2 * block(128 * 4) + block(sizeof(double));
  const auto category = static_cast<size_t>(device::Category::kOptimizer);
  const int64_t of_state = arena->report().live_by_category[category];
  EXPECT_EQ(of_state, expected);
  optimizer.measure_gradients();
  optimizer.step({});
  EXPECT_EQ(optimizer.gradient_norm(), 0.0);
  EXPECT_EQ(arena->report().live_by_category[category], of_state);
}

}  // namespace
}  // namespace sotto::optim
