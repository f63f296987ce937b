// What lies in host memory, state of the optimizer or inputs of layers, changes no bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/tiny_models.h"
#include "support/training.h"

namespace sotto::train {
namespace host_test {

using optim::Optimizer;
using optim::StateForm;
using optim::StateLocation;

struct Form {
  const char* name;
  at::ScalarType weights = at::kFloat;
  at::ScalarType gradients = at::kFloat;
  StateForm state = {};
};
const Form kForms[] = {{.name = "fp32"},
                       {.name = "bf16 and 16 bits", .weights = at::kBFloat16},
                       {.name = "bf16, 8 bits, 8-bit moments",
                        .weights = at::kBFloat16,
                        .gradients = at::kBFloat16,
                        .state = {.remainder_bits = 8, .moments = optim::Moments::k8Bit}},
                       {.name = "bf16 alone, 8-bit moments",
                        .weights = at::kBFloat16,
                        .state = {.remainder_bits = 0, .moments = optim::Moments::k8Bit}}};

struct After {
  std::vector<at::Tensor> weights = {};
  std::vector<at::Tensor> states = {};
  int64_t host_bytes = 0;
};

// Four steps with gradients of their own, one of which leaves a layer out.
After run(const Form& form, StateLocation location, int64_t window_bytes) {
  nn::ParameterStore store;
  store.declare({.name = "a.weight", .shape = {150, 70}, .deviation = 0.5});
  store.declare({.name = "a.bias", .shape = {150}});
  store.declare({.name = "b.weight", .shape = {71, 90}, .deviation = 0.5});
  store.declare({.name = "b.norm", .shape = {90}, .mean = 1.0});
  store.allocate({.weights = form.weights, .gradients = form.gradients});
  device::HostMemory host(at::kCPU);
  optim::OptimizerOptions options;
  options.rate_factors = {"b.=3"};
  options.state = location;
  Optimizer optimizer(store, options, form.state, &host, window_bytes);
  for (int64_t step = 1; step <= 4; ++step) {
    store.zero_gradients();  // what lies between parameters counts in the norm
    for (nn::Parameter& parameter : store.parameters()) {
      const at::Tensor values =
          at::linspace(-1, 2, parameter.gradient.numel()).mul(static_cast<double>(step)).sin();
      parameter.gradient.copy_(values.view(parameter.gradient.sizes()));
    }
    optimizer.measure_gradients();
    Optimizer::Update update{.step = step, .total_steps = 4};
    if (step == 3) update.left_out = {"a."};
    optimizer.step(update);
  }
  After after{.host_bytes = host.used_bytes()};
  for (const nn::Parameter& parameter : store.parameters())
    after.weights.push_back(parameter.value.clone());
  for (const auto& [name, arrays] : optimizer.states()) {
    for (const auto array : optim::StateArrays::kAll) {
      const at::Tensor& tensor = arrays.*array;
      if (tensor.defined()) after.states.push_back(tensor.clone());
    }
  }
  return after;
}

TEST(StateOnTheHost, ChangesNoBits) {
  constexpr int64_t kSmallWindow = 8'192;  // a piece of two or three blocks
  for (const Form& form : kForms) {
    const After on_device = run(form, StateLocation::kDevice, kSmallWindow);
    EXPECT_EQ(on_device.host_bytes, 0);
    for (const int64_t window_bytes : {kSmallWindow, optim::OptimizerState::kWindowBytes}) {
      const After on_host = run(form, StateLocation::kHost, window_bytes);
      EXPECT_GT(on_host.host_bytes, 0);
      EXPECT_TRUE(test::same_bits(on_host.weights, on_device.weights)) << form.name;
      EXPECT_TRUE(test::same_bits(on_host.states, on_device.states)) << form.name;
    }
  }
}

TEST(StateOnTheHost, ChangesNoBitsOfARun) {
  for (const Numerics numerics : {Numerics::kFp32, Numerics::kBf16Exact, Numerics::kBf16Lean}) {
    RunConfig config = test::tiny_config();
    config.numerics = numerics;
    config.precision.small_below = 64;
    const test::Curve on_device = test::run_curve(config, {.tier = nn::Tier::kBlock}, 4, 5);
    config.optimizer.state = StateLocation::kHost;
    const test::Curve on_host = test::run_curve(config, {.tier = nn::Tier::kHost}, 4, 5);
    EXPECT_EQ(on_host.losses, on_device.losses);
    EXPECT_TRUE(test::same_bits(on_host.weights, on_device.weights));
  }
}

TEST(StateOnTheHost, CountsAgainstTheHostBudget) {
  RunConfig config = test::tiny_config();
  config.optimizer.state = StateLocation::kHost;
  const Learner dry(config, test::kTinyShape, at::kMeta);
  const int64_t needed = dry.host.used_bytes();
  EXPECT_GT(needed, 0);
  EXPECT_NO_THROW(Learner(config, test::kTinyShape, at::kCPU, needed));
  EXPECT_THROW(Learner(config, test::kTinyShape, at::kCPU, needed - 1), OutOfMemory);
}

}  // namespace host_test
}  // namespace sotto::train
