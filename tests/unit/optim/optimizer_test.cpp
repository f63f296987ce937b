#include "sotto/optim/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_yaml.h"
#include "sotto/core/error.h"
#include "sotto/device/placement.h"
#include "sotto/device/torch_memory.h"

namespace sotto::optim {
namespace {

const OptimizerOptions kOptions{.schedule = {.kind = ScheduleKind::kConstant, .rate = 1e-4},
                                .clip_norm = 2.0};

struct Network {
  explicit Network(at::ScalarType type, const at::Device& device = at::kCPU,
                   at::ScalarType gradients = at::kFloat) {
    store.declare({.name = "a.weight", .shape = {100, 70}, .deviation = 0.5});
    store.declare({.name = "a.bias", .shape = {100}});
    store.declare({.name = "b.weight", .shape = {50, 90}, .deviation = 0.5});
    store.allocate({.device = device, .weights = type, .gradients = gradients});
  }

  void set_gradients(double value) {
    for (nn::Parameter& parameter : store.parameters()) parameter.gradient.fill_(value);
  }

  nn::ParameterStore store;
};

TEST(OptimizerOptions, RefuseEpsilonWithoutEffect) {
  const auto read = [](const std::string& setting) {
    return read_options<OptimizerOptions>(load_overrides({setting})).epsilon;
  };
  EXPECT_EQ(read("epsilon=1e-12"), 1e-12);
  EXPECT_THROW(read("epsilon=1e-20"), ConfigError);
}

TEST(Optimizer, ComputesTheNormOfAllGradients) {
  Network network(at::kFloat);
  Optimizer optimizer(network.store, kOptions);
  network.set_gradients(-0.5);
  optimizer.measure_gradients();
  const double norm = 0.5 * std::sqrt(100.0 * 70.0 + 100.0 + 50.0 * 90.0);
  EXPECT_NEAR(optimizer.gradient_norm(), norm, 1e-12 * norm);
  optimizer.measure_gradients();
  EXPECT_NEAR(optimizer.gradient_norm(), norm, 1e-12 * norm) << "measured anew";
}

// The limit applies to the gradients after unscaling, whatever the loss scale.
TEST(Optimizer, ClipsScaledGradients) {
  for (const double loss_scale : {1.0, 1024.0}) {
    Network network(at::kFloat);
    Optimizer optimizer(network.store, kOptions);
    network.set_gradients(loss_scale);
    optimizer.measure_gradients();
    optimizer.step({.gradient_scale = 1.0 / loss_scale});
    const double clipped = 2.0 / (optimizer.gradient_norm() / loss_scale);
    const Optimizer::State state = optimizer.states().front();
    EXPECT_NEAR(state.arrays.first_moment[0][0].item<double>(), 0.1 * clipped, 1e-8);
  }
}

TEST(Optimizer, ChangesNothingIfTheNormIsNotFinite) {
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

// Takes a step with these gradients; NaN: one that changes nothing.
void take_step(Network& network, Optimizer& optimizer, double gradient,
               const Optimizer::Update& update) {
  network.set_gradients(gradient);
  optimizer.measure_gradients();
  optimizer.step(update);
}

// torch counts only the steps it took, and the bias correction of the moments uses this count.
TEST(Optimizer, BiasCorrectionIgnoresSkippedSteps) {
  Network plain(at::kFloat), skipping(at::kFloat);
  Optimizer of_plain(plain.store, kOptions), of_skipping(skipping.store, kOptions);
  take_step(plain, of_plain, 1e-3, {.step = 1});
  take_step(plain, of_plain, 2e-3, {.step = 2});
  take_step(skipping, of_skipping, 1e-3, {.step = 1});
  take_step(skipping, of_skipping, std::numeric_limits<double>::infinity(), {.step = 2});
  of_skipping.skip_step();  // the third
  take_step(skipping, of_skipping, 2e-3, {.step = 4});
  EXPECT_EQ(of_skipping.skipped_steps().of_all, 2);
  for (size_t i = 0; i < plain.store.ranges().size(); ++i)
    EXPECT_TRUE(at::equal(plain.store.ranges()[i].values, skipping.store.ranges()[i].values)) << i;
}

TEST(Optimizer, CountsSkippedStepsPerLayer) {
  Network all(at::kFloat), part(at::kFloat);
  Optimizer of_all(all.store, kOptions), of_part(part.store, kOptions);
  take_step(all, of_all, 1e-3, {.step = 1});
  take_step(all, of_all, 3e-3, {.step = 2});
  take_step(part, of_part, 1e-3, {.step = 1});
  take_step(part, of_part, 2e-3, {.step = 2, .left_out = {"a."}});
  // Gradients that are not finite count once.
  take_step(part, of_part, std::numeric_limits<double>::quiet_NaN(),
            {.step = 3, .left_out = {"a."}});
  take_step(part, of_part, 3e-3, {.step = 4});
  EXPECT_EQ(of_part.skipped_steps(), (SkippedSteps{.of_all = 1, .of_layers = {{"a.", 1}}}));
  const auto value = [](Network& network, const char* name) {
    return network.store.find(name)->value;
  };
  EXPECT_TRUE(at::equal(value(part, "a.weight"), value(all, "a.weight")));
  EXPECT_TRUE(at::equal(value(part, "a.bias"), value(all, "a.bias")));
  EXPECT_FALSE(at::equal(value(part, "b.weight"), value(all, "b.weight")));

  // One that goes on with the counts takes the same step as one that never stopped; without them
  // it takes that of a run in which all steps counted.
  const auto go_on = [&](const SkippedSteps& skipped) {
    Network network(at::kFloat);
    Optimizer optimizer(network.store, kOptions);
    optimizer.set_skipped_steps(skipped);
    take_step(network, optimizer, 1e-3, {.step = 5});
    return value(network, "a.weight").clone();
  };
  EXPECT_TRUE(at::equal(go_on({.of_all = 1, .of_layers = {{"a.", 1}}}), go_on({.of_all = 2})));
  EXPECT_FALSE(at::equal(go_on({}), go_on({.of_all = 2})));
}

// Steps too small for bf16 are not lost.
TEST(Optimizer, KeepsTheBf16Remainder) {
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

TEST(Optimizer, HasARemainderOnlyForBf16) {
  Network whole(at::kFloat);
  for (const Optimizer::State& state : Optimizer(whole.store, kOptions).states())
    EXPECT_FALSE(state.arrays.remainder.defined());
  Network split(at::kBFloat16);
  Optimizer optimizer(split.store, kOptions);
  split.set_gradients(1.0);
  optimizer.measure_gradients();
  optimizer.step({});
  const std::vector<Optimizer::State> states = optimizer.states();
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(states[0].name, "a.weight");
  EXPECT_EQ(states[0].arrays.remainder.scalar_type(), at::kShort);
  EXPECT_EQ(states[0].arrays.remainder.sizes(), states[0].arrays.first_moment.sizes());
  EXPECT_TRUE((states[2].arrays.remainder != 0).any().item<bool>());
  EXPECT_FALSE(states[1].arrays.remainder.defined()) << "a vector is fp32";
}

TEST(Optimizer, AllocatesNoMoreThanReported) {
  const auto arena =
      std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
  const device::ArenaGuard guard(at::kMeta, arena);
  Network network(at::kBFloat16, at::kMeta);
  Optimizer optimizer(network.store, kOptions);
  // Ranges of 7,168 + 4,608 and of 128 values.
  const auto block = [](int64_t bytes) { return device::Placement::rounded(bytes); };
  const int64_t expected =
      2 * block(11'776 * 4) + block(11'776 * 2) + 2 * block(128 * 4) + block(sizeof(double));
  const auto category = static_cast<size_t>(device::Category::kOptimizer);
  const int64_t of_state = arena->report().live_by_category[category];
  EXPECT_EQ(of_state, expected);
  optimizer.measure_gradients();
  optimizer.step({});
  EXPECT_EQ(optimizer.gradient_norm(), 0.0);
  EXPECT_EQ(arena->report().live_by_category[category], of_state);
}

// Large matrices have one byte per value and four per 256 values; the bias is in fp32.
TEST(Optimizer, Keeps8BitMomentsOfLargeMatrices) {
  const auto arena =
      std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
  const device::ArenaGuard guard(at::kMeta, arena);
  Network network(at::kBFloat16, at::kMeta);
  Optimizer optimizer(network.store, kOptions, {.remainder_bits = 8, .moments = Moments::k8Bit});
  const auto block = [](int64_t bytes) { return device::Placement::rounded(bytes); };
  const int64_t expected = 2 * block(11'776) + 2 * block(11'776 / 256 * 4) + block(11'776) +
                           2 * block(128 * 4) + block(sizeof(double));
  const auto category = static_cast<size_t>(device::Category::kOptimizer);
  EXPECT_EQ(arena->report().live_by_category[category], expected);
  optimizer.measure_gradients();
  optimizer.step({});
  EXPECT_EQ(arena->report().live_by_category[category], expected);
}

const std::vector<StateForm>& state_forms() {
  static const std::vector<StateForm> kForms = {{},
                                                {.remainder_bits = 16, .moments = Moments::k8Bit},
                                                {.remainder_bits = 8, .moments = Moments::k8Bit},
                                                {.remainder_bits = 0, .moments = Moments::k8Bit},
                                                {.remainder_bits = 8}};
  return kForms;
}

void take_steps(Network& network, Optimizer& optimizer, const std::vector<std::string>& left_out) {
  at::manual_seed(7);
  for (int64_t step = 1; step <= 3; ++step) {
    for (nn::Parameter& parameter : network.store.parameters())
      parameter.gradient.copy_(at::randn(parameter.gradient.sizes()));
    optimizer.measure_gradients();
    optimizer.step({.step = step, .total_steps = 3, .seed = 4, .left_out = left_out});
  }
}

std::vector<at::Tensor> all_of(const Network& network, const Optimizer& optimizer,
                               const std::string& name) {
  std::vector<at::Tensor> tensors;
  for (const nn::Parameter& parameter : network.store.parameters()) {
    if (parameter.spec.name == name) tensors.push_back(parameter.value.clone());
  }
  for (const Optimizer::State& state : optimizer.states()) {
    if (state.name != name) continue;
    for (const auto array : StateArrays::kAll) {
      const at::Tensor& tensor = state.arrays.*array;
      if (tensor.defined()) tensors.push_back(tensor.clone());
    }
  }
  return tensors;
}

bool are_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(
      a, b, [](const at::Tensor& x, const at::Tensor& y) { return at::equal(x, y); });
}

// Skipped parameters split ranges at parameter boundaries, which no block of moments crosses, and
// random bits depend on the position: all other parameters change as in a whole update.
TEST(Optimizer, SkipsParametersInEveryForm) {
  for (const StateForm& form : state_forms()) {
    Network whole(at::kBFloat16), part(at::kBFloat16);
    Optimizer of_whole(whole.store, kOptions, form), of_part(part.store, kOptions, form);
    const std::vector<at::Tensor> before = all_of(part, of_part, "a.weight");
    take_steps(whole, of_whole, {});
    take_steps(part, of_part, {"a."});
    EXPECT_TRUE(are_equal(all_of(part, of_part, "a.weight"), before)) << form.remainder_bits;
    EXPECT_FALSE(are_equal(all_of(whole, of_whole, "a.weight"), before)) << form.remainder_bits;
    EXPECT_TRUE(are_equal(all_of(part, of_part, "b.weight"), all_of(whole, of_whole, "b.weight")))
        << form.remainder_bits;
  }
}

// The views contain the whole state of a parameter: restored from them, training continues
// bit-exactly.
TEST(Optimizer, ResumesFromItsStates) {
  for (const StateForm& form : state_forms()) {
    Network first(at::kBFloat16), second(at::kBFloat16);
    Optimizer of_first(first.store, kOptions, form), of_second(second.store, kOptions, form);
    take_steps(first, of_first, {});
    const std::vector<Optimizer::State> from = of_first.states(), to = of_second.states();
    for (size_t i = 0; i < from.size(); ++i) {
      for (const auto array : StateArrays::kAll) {
        const at::Tensor& old = from[i].arrays.*array;
        ASSERT_EQ(old.defined(), (to[i].arrays.*array).defined());
        if (old.defined()) at::Tensor(to[i].arrays.*array).copy_(old);
      }
    }
    for (size_t i = 0; i < first.store.parameters().size(); ++i)
      second.store.parameters()[i].value.copy_(first.store.parameters()[i].value);
    take_steps(first, of_first, {});
    take_steps(second, of_second, {});
    for (const char* name : {"a.weight", "a.bias", "b.weight"})
      EXPECT_TRUE(are_equal(all_of(first, of_first, name), all_of(second, of_second, name)))
          << name << ", " << form.remainder_bits;
  }
}

TEST(Optimizer, AcceptsBf16Gradients) {
  Network whole(at::kBFloat16), half(at::kBFloat16, at::kCPU, at::kBFloat16);
  EXPECT_EQ(half.store.find("a.weight")->gradient.scalar_type(), at::kBFloat16);
  EXPECT_EQ(half.store.find("a.bias")->gradient.scalar_type(), at::kFloat);
  Optimizer of_whole(whole.store, kOptions), of_half(half.store, kOptions);
  for (auto [network, optimizer] : {std::pair{&whole, &of_whole}, {&half, &of_half}}) {
    network->set_gradients(0.25);  // a number of bf16
    optimizer->measure_gradients();
    optimizer->step({});
  }
  EXPECT_EQ(of_whole.gradient_norm(), of_half.gradient_norm());
  EXPECT_TRUE(are_equal(all_of(whole, of_whole, "a.weight"), all_of(half, of_half, "a.weight")));
}

// Steps are as large as the rates, and the longest matching name applies.
TEST(Optimizer, SupportsSeparateRatesForParts) {
  OptimizerOptions options = kOptions;
  options.weight_decay = 0.0;
  options.rate_factors = {"a.=10", "a.bias=0.5"};
  Network network(at::kFloat);
  Optimizer optimizer(network.store, options);
  std::map<std::string, at::Tensor> before;
  for (const nn::Parameter& parameter : network.store.parameters())
    before[parameter.spec.name] = parameter.value.clone();
  network.set_gradients(1.0);
  optimizer.measure_gradients();
  optimizer.step({.rate_factor = 0.5});
  EXPECT_DOUBLE_EQ(optimizer.rate({.rate_factor = 0.5}), 5e-5);
  for (const auto& [name, factor] :
       {std::pair{"a.weight", 10.0}, {"a.bias", 0.5}, {"b.weight", 1.0}}) {
    const at::Tensor moved = before[name] - network.store.find(name)->value;
    EXPECT_TRUE(at::allclose(moved, at::full_like(moved, 5e-5 * factor), 1e-3, 1e-7)) << name;
  }
}

TEST(Optimizer, RefusesInvalidRateFactors) {
  Network network(at::kFloat);
  for (const char* text : {"c.=2", "a", "a.=", "a.=x", "a.=0", "a.=-1", "=3", "a.=2x"}) {
    OptimizerOptions options = kOptions;
    options.rate_factors = {text};
    EXPECT_THROW(Optimizer(network.store, options), ConfigError) << text;
  }
  EXPECT_THROW(read_overrides<OptimizerOptions>({"rate_factors=[head]"}), ConfigError);
  EXPECT_EQ(read_overrides<OptimizerOptions>({"rate_factors=[head.=10]"}).rate_factors.size(), 1u);
}

}  // namespace
}  // namespace sotto::optim
