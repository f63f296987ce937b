// The convolution module against double precision and autograd, and its memory.
#include "sotto/nn/blocks/convolution_module.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>

#include "sotto/core/error.h"
#include "sotto/device/torch_memory.h"
#include "support/thrown.h"
#include "support/tolerance.h"

namespace sotto::nn {
namespace {

using test::relative_error;

constexpr double kModuleEpsilon = 1e-5;
// Several utterances: one is longer than a tile, one shorter than the kernel, and one has one
// frame.
const std::vector<int64_t> kModuleLengths = {7, 70, 1, 12};
constexpr std::array kInnerKinds = {InnerNormKind::kLayer, InnerNormKind::kGroup,
                                    InnerNormKind::kFrozenBatch, InnerNormKind::kBatch};

ConvolutionModuleOptions module_options(InnerNormKind kind) {
  return {.width = 12,
          .kernel = 9,
          .inner_norm = kind,
          .num_groups = 4,
          .dropout = 0.0,
          .first_slot = 1};
}

// A layer that is only the module: its input and the module's slots.
struct ModuleLayer {
  static constexpr std::array<SlotSpec, 1 + ConvolutionModule::kSlots.size()> kSlots = {{
      {.name = "input"},
      ConvolutionModule::kSlots[0],
      ConvolutionModule::kSlots[1],
      ConvolutionModule::kSlots[2],
      ConvolutionModule::kSlots[3],
      ConvolutionModule::kSlots[4],
      ConvolutionModule::kSlots[5],
      ConvolutionModule::kSlots[6],
      ConvolutionModule::kSlots[7],
  }};

  explicit ModuleLayer(const ConvolutionModuleOptions& options, at::ScalarType type = at::kFloat,
                       const at::Device& device = at::kCPU)
      : module(store, "module", options) {
    store.allocate({.device = device, .weights = type, .small_below = 1, .seed = 3});
  }

  at::Tensor forward(at::Tensor x, const Context& context, Tape& tapes) const {
    LayerTape& tape = tapes.open(context.layer, kSlots, context.has_backward());
    tape.put(0, {std::move(x)});
    at::Tensor y =
        module.result([&]() -> const at::Tensor& { return tape.kept(0).front(); }, context, tape);
    module.settle(tape);
    tape.settle(0);
    if (!context.has_backward()) tapes.close(context.layer);
    return y;
  }
  at::Tensor backward(const at::Tensor& dy, const Context& context, Tape& tapes) const {
    LayerTape& tape = tapes.layer(context.layer);
    tape.begin_backward();
    module.release(tape);
    at::Tensor dx = module.backward(
        dy, [&]() -> const at::Tensor& { return tape.kept(0).front(); }, context, tape);
    tapes.close(context.layer);
    return dx;
  }

  const at::Tensor& value(const char* name) { return store.find(name)->value; }

  ParameterStore store;
  ConvolutionModule module;
};

// The same by ATen in double, convolutions an utterance at a time.
class ModuleTruth {
 public:
  ModuleTruth(const ParameterStore& store, const ConvolutionModuleOptions& options)
      : options_(options) {
    for (const Parameter& parameter : store.parameters()) {
      const bool trains = parameter.spec.trains;
      leaves[parameter.spec.name] =
          parameter.value.to(at::kDouble).detach().clone().set_requires_grad(trains);
    }
  }

  at::Tensor result(const at::Tensor& x, const std::vector<int64_t>& lengths) {
    const at::Tensor normed =
        at::layer_norm(x, {x.size(1)}, leaf("norm.weight"), leaf("norm.bias"), kModuleEpsilon);
    const at::Tensor gated = at::glu(linear(normed, "expand"), 1);
    std::vector<at::Tensor> parts;
    for (const at::Tensor& utterance : gated.split_with_sizes(lengths)) {
      const at::Tensor channels_first = utterance.t().unsqueeze(0);  // [1, D, T]
      const std::optional<at::Tensor> bias =
          options_.has_biases ? std::optional(leaf("depthwise.bias")) : std::nullopt;
      parts.push_back(at::conv1d(channels_first, leaf("depthwise.weight").unsqueeze(1), bias, 1,
                                 options_.kernel / 2, 1, options_.width)
                          .squeeze(0)
                          .t());
    }
    return x + linear(at::silu(inner_norm(at::cat(parts), lengths)), "project");
  }

  at::Tensor& leaf(const std::string& name) { return leaves.at("module." + name); }

  std::map<std::string, at::Tensor> leaves;

 private:
  at::Tensor linear(const at::Tensor& x, const std::string& name) {
    const at::Tensor product = at::mm(x, leaf(name + ".weight").t());
    return options_.has_biases ? product + leaf(name + ".bias") : product;
  }
  at::Tensor inner_norm(const at::Tensor& x, const std::vector<int64_t>& lengths) {
    const at::Tensor &gamma = leaf("inner_norm.weight"), &beta = leaf("inner_norm.bias");
    switch (options_.inner_norm) {
      case InnerNormKind::kLayer:
        return at::layer_norm(x, {x.size(1)}, gamma, beta, kModuleEpsilon);
      case InnerNormKind::kGroup: {
        std::vector<at::Tensor> parts;
        for (const at::Tensor& utterance : x.split_with_sizes(lengths)) {
          parts.push_back(at::group_norm(utterance.t().unsqueeze(0), options_.num_groups, gamma,
                                         beta, kModuleEpsilon)
                              .squeeze(0)
                              .t());
        }
        return at::cat(parts);
      }
      // As torch.nn.BatchNorm1d has it, over the frames of all utterances.
      case InnerNormKind::kFrozenBatch:
      case InnerNormKind::kBatch:
        return at::batch_norm(
            x, gamma, beta, leaf("inner_norm.running_mean"), leaf("inner_norm.running_variance"),
            /*training=*/options_.inner_norm == InnerNormKind::kBatch, 0.1, kModuleEpsilon, false);
    }
    return {};
  }

  ConvolutionModuleOptions options_;
};

// Norms, biases and statistics away from 1 and 0, so that each can be seen to matter.
void move_vectors(ParameterStore& store) {
  for (Parameter& parameter : store.parameters()) {
    if (!parameter.spec.decays()) parameter.value.add_(at::rand(parameter.value.sizes()) * 0.3);
  }
}

void expect_same_gradients(const ParameterStore& store, const ModuleTruth& truth,
                           const ConvolutionModuleOptions& options, double tolerance) {
  for (const Parameter& parameter : store.parameters()) {
    const std::string& name = parameter.spec.name;
    if (!parameter.spec.trains) continue;
    if (name.ends_with("depthwise.bias") && options.inner_norm == InnerNormKind::kBatch) {
      // The statistics of the batch take a bias away: its exact gradient is zero.
      const at::Tensor& weight_gradient = truth.leaves.at("module.depthwise.weight").grad();
      EXPECT_LT(parameter.gradient.abs().max().item<double>(),
                tolerance * weight_gradient.abs().max().item<double>());
      continue;
    }
    EXPECT_LT(relative_error(parameter.gradient, truth.leaves.at(name).grad()), tolerance) << name;
  }
}

void expect_agreement(const ConvolutionModuleOptions& options, Tier tier, at::ScalarType type) {
  ModuleLayer layer(options, type);
  move_vectors(layer.store);
  const kernels::Packing packing(kModuleLengths, at::kCPU);
  const at::Tensor x = at::randn({packing.num_frames(), options.width}).to(type);
  const at::Tensor dy = at::randn({packing.num_frames(), options.width}).to(type);
  ModuleTruth truth(layer.store, options);
  const at::Tensor input = x.to(at::kDouble).set_requires_grad(true);
  const at::Tensor y = truth.result(input, kModuleLengths);
  y.backward(dy.to(at::kDouble));

  device::HostMemory host(at::kCPU);
  HostTape on_host(host);
  Tape tape({tier}, &on_host);
  const Context context{.step = {}, .packing = packing};
  const double tolerance = (type == at::kFloat ? 2.0 : 6.0) * test::kernel_tolerance(type);
  EXPECT_LT(relative_error(layer.forward(x.clone(), context, tape), y.detach()), tolerance);
  EXPECT_LT(relative_error(layer.backward(dy, context, tape), input.grad()), tolerance);
  EXPECT_EQ(tape.num_open(), 0);
  expect_same_gradients(layer.store, truth, options, tolerance);
  // Once per forward, whatever was recomputed.
  if (options.inner_norm != InnerNormKind::kBatch) return;
  layer.store.commit_statistics();
  for (const char* name : {"module.inner_norm.running_mean", "module.inner_norm.running_variance"})
    EXPECT_LT(relative_error(layer.value(name), truth.leaves.at(name)), tolerance) << name;
}

TEST(ConvolutionModule, MatchesAutogradWithEachNormAtEveryTier) {
  at::manual_seed(1);
  for (const InnerNormKind kind : kInnerKinds) {
    for (const auto& [name, tier] : kTiers) {
      SCOPED_TRACE(fmt::format("norm {}, tier {}", static_cast<int>(kind), name));
      expect_agreement(module_options(kind), tier, at::kFloat);
    }
    expect_agreement(module_options(kind), Tier::kNorms, at::kBFloat16);
  }
}

TEST(ConvolutionModule, MatchesAutogradWithoutBiases) {
  at::manual_seed(4);
  ConvolutionModuleOptions options = module_options(InnerNormKind::kFrozenBatch);
  options.has_biases = false;
  for (const Tier tier : {Tier::kNone, Tier::kBlock}) expect_agreement(options, tier, at::kFloat);
  // Only the norms have biases.
  int64_t num_biases = 0;
  const ModuleLayer layer(options);
  for (const Parameter& parameter : layer.store.parameters())
    num_biases += parameter.spec.name.ends_with("bias") ? 1 : 0;
  EXPECT_EQ(num_biases, 2);
}

TEST(ConvolutionModule, MatchesAutogradWithALongKernel) {
  at::manual_seed(2);
  ConvolutionModuleOptions options = module_options(InnerNormKind::kLayer);
  options.kernel = 31;
  expect_agreement(options, Tier::kQkv, at::kFloat);
}

// Results and gradients of a step with dropout.
std::vector<at::Tensor> run_with_dropout(Tier tier, InnerNormKind kind) {
  ConvolutionModuleOptions options = module_options(kind);
  options.dropout = 0.3;
  options.dropout_index = 2;
  ModuleLayer layer(options);
  const kernels::Packing packing(kModuleLengths, at::kCPU);
  const at::Tensor x = at::linspace(-1, 1, packing.num_frames() * options.width)
                           .view({packing.num_frames(), options.width});
  device::HostMemory host(at::kCPU);
  HostTape on_host(host);
  Tape tape({tier}, &on_host);
  const Context context{.step = {.step = 5}, .packing = packing};
  std::vector<at::Tensor> results = {layer.forward(x.clone(), context, tape)};
  results.push_back(layer.backward(x.sin(), context, tape));
  for (const Parameter& parameter : layer.store.parameters())
    results.push_back(parameter.spec.trains ? parameter.gradient : parameter.value);
  return results;
}

TEST(ConvolutionModule, TiersGiveTheSameBits) {
  for (const InnerNormKind kind : kInnerKinds) {
    const std::vector<at::Tensor> kept = run_with_dropout(Tier::kNone, kind);
    for (const auto& [name, tier] : kTiers) {
      const std::vector<at::Tensor> again = run_with_dropout(tier, kind);
      for (size_t i = 0; i < kept.size(); ++i)
        EXPECT_TRUE(at::equal(kept[i], again[i])) << name << ", result " << i;
    }
  }
}

// Utterances do not see each other, except through the statistics of a batch.
TEST(ConvolutionModule, UtterancesAreIndependentOfTheirPack) {
  const kernels::Packing together({9, 4}, at::kCPU), alone({9}, at::kCPU);
  const at::Tensor x = at::linspace(-2, 2, 13 * 12).view({13, 12}).sin();
  for (const InnerNormKind kind : kInnerKinds) {
    const ModuleLayer layer(module_options(kind));
    Tape tape;
    const at::Tensor both =
        layer.forward(x.clone(), {.step = {.is_training = false}, .packing = together}, tape);
    const at::Tensor first = layer.forward(
        x.narrow(0, 0, 9).clone(), {.step = {.is_training = false}, .packing = alone}, tape);
    EXPECT_LT(relative_error(both.narrow(0, 0, 9), first), 1e-6);
  }
}

TEST(ConvolutionModule, EvaluationAndFrozenLayersUseRunningStatistics) {
  at::manual_seed(3);
  ModuleLayer layer(module_options(InnerNormKind::kBatch));
  move_vectors(layer.store);
  ConvolutionModuleOptions frozen = module_options(InnerNormKind::kFrozenBatch);
  ModuleTruth truth(layer.store, frozen);
  const kernels::Packing packing(kModuleLengths, at::kCPU);
  const at::Tensor x = at::randn({packing.num_frames(), frozen.width});
  const at::Tensor y = truth.result(x.to(at::kDouble), kModuleLengths).detach();
  Tape tape;
  for (const Context& context : {Context{.step = {.is_training = false}, .packing = packing},
                                 Context{.step = {}, .packing = packing, .is_frozen = true}}) {
    EXPECT_LT(relative_error(layer.forward(x.clone(), context, tape), y),
              2.0 * test::kernel_tolerance(at::kFloat));
    EXPECT_EQ(tape.num_open(), 0);
  }
  const at::Tensor& mean = layer.value("module.inner_norm.running_mean");
  EXPECT_LT(relative_error(mean, truth.leaf("inner_norm.running_mean")), 1e-7);
}

TEST(ConvolutionModule, RefusesOptionsThatMakeNoSense) {
  const auto build = [](const ConvolutionModuleOptions& options) {
    ParameterStore store;
    const ConvolutionModule module(store, "module", options);
  };
  ConvolutionModuleOptions options = module_options(InnerNormKind::kLayer);
  options.kernel = 30;
  const std::string message = test::message_of<ConfigError>([&] { build(options); });
  EXPECT_PRED2(test::contains, message, "a kernel of 30 frames");
  EXPECT_PRED2(test::contains, message, "31");
  options = module_options(InnerNormKind::kGroup);
  options.num_groups = 7;
  EXPECT_PRED2(test::contains, test::message_of<ConfigError>([&] { build(options); }),
               "7 groups for 12 channels");
}

// One step on a device; dry on meta.
device::MemoryReport step_report(InnerNormKind kind, Tier tier, at::ScalarType type,
                                 at::DeviceType on) {
  const bool is_dry = on == at::kMeta;
  const auto arena = std::make_shared<device::Arena>(
      is_dry ? device::RegionKind::kNothing : device::RegionKind::kHost,
      is_dry ? device::Arena::kUnlimited : 64 << 20);
  const device::ArenaGuard guard(on, arena);
  {
    ConvolutionModuleOptions options = module_options(kind);
    options.dropout = 0.1;
    const ModuleLayer layer(options, type, on);
    const kernels::Packing packing({30, 1, 200, 7}, on);
    const auto rows = [&] {
      at::Tensor result = at::empty({packing.num_frames(), options.width},
                                    at::TensorOptions().dtype(type).device(on));
      if (!is_dry) result.fill_(0.01);
      return result;
    };
    device::HostMemory host(on);
    HostTape on_host(host);
    Tape tape({tier}, &on_host);
    const Context context{.step = {}, .packing = packing};
    layer.forward(rows(), context, tape);
    layer.backward(rows(), context, tape);
  }
  EXPECT_EQ(arena->num_blocks(), 0);
  return arena->report();
}

TEST(ConvolutionModule, DryRunTakesTheMeasuredMemory) {
  for (const InnerNormKind kind : kInnerKinds) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const auto& [name, tier] : kTiers) {
        const device::MemoryReport dry = step_report(kind, tier, type, at::kMeta);
        const device::MemoryReport real = step_report(kind, tier, type, at::kCPU);
        EXPECT_EQ(dry.peak, real.peak) << name;
        EXPECT_EQ(dry.high_water, real.high_water) << name;
        EXPECT_EQ(dry.at_peak, real.at_peak) << name;
        EXPECT_EQ(dry.num_reservations, real.num_reservations) << name;
      }
    }
  }
}

}  // namespace
}  // namespace sotto::nn
