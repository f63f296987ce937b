// What stands before and behind the blocks of an encoder, against double precision and autograd.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/nn/fronts/subsampling.h"
#include "sotto/nn/heads/ctc_head.h"
#include "sotto/nn/layers/positions.h"
#include "support/block_part.h"
#include "support/tolerance.h"

namespace sotto::nn {
namespace {

using kernels::Packing;
using test::leaves_of;
using test::relative_error;

constexpr double kTolerance = 1e-5;

void expect_same_gradients(const ParameterStore& store, const test::Leaves& leaves) {
  for (const Parameter& parameter : store.parameters()) {
    EXPECT_LT(relative_error(parameter.gradient, leaves.at(parameter.spec.name).grad()), kTolerance)
        << parameter.spec.name;
  }
}

void move_from_zero(ParameterStore& store) {
  for (Parameter& parameter : store.parameters())
    parameter.value.add_(at::rand(parameter.value.sizes()) * 0.3);
}

const std::vector<int64_t> kLengths = {7, 1, 12, 4};

// Convolutions of one utterance by ATen: [T, F] to [ceil(T / factor), D].
at::Tensor convolved(at::Tensor x, const test::Leaves& leaves, int64_t factor) {
  for (int64_t stage = 1; stage <= factor / 2; ++stage) {
    const std::string name = "front.conv" + std::to_string(stage);
    const at::Tensor& flat = leaves.at(name + ".weight");
    const at::Tensor weight = flat.view({flat.size(0), 3, -1}).transpose(1, 2);
    x = at::conv1d(x.t().unsqueeze(0), weight, leaves.at(name + ".bias"), 2, 1).squeeze(0).t();
    x = at::gelu(x);
  }
  return x;
}

at::Tensor stacked(const at::Tensor& x, const test::Leaves& leaves, int64_t factor) {
  const int64_t frames = (x.size(0) + factor - 1) / factor;
  const at::Tensor padded = at::constant_pad_nd(x, {0, 0, 0, frames * factor - x.size(0)});
  return at::addmm(leaves.at("front.projection.bias"), padded.reshape({frames, -1}),
                   leaves.at("front.projection.weight").t());
}

void expect_subsampling(const SubsamplingOptions& options, Tier tier) {
  ParameterStore store;
  const Subsampling subsampling(store, "front", options);
  store.allocate({});
  move_from_zero(store);
  const Packing frames(kLengths, at::kCPU);
  const at::Tensor x = at::randn({frames.num_frames(), options.num_features});
  const std::vector<Packing> packings = subsampling.packings_from(frames);
  EXPECT_EQ(packings.back().lengths()[2], subsampling.num_frames(12));
  const at::Tensor dy = at::randn({packings.back().num_frames(), options.width});

  const auto leaves = leaves_of(store);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : x.to(at::kDouble).split_with_sizes(kLengths)) {
    parts.push_back(options.kind == SubsamplingKind::kConvolution
                        ? convolved(part, leaves, options.factor)
                        : stacked(part, leaves, options.factor));
  }
  const at::Tensor truth = at::cat(parts);
  truth.backward(dy.to(at::kDouble));

  device::HostMemory host(at::kCPU);
  HostTape on_host(host);
  Tape tape({tier}, &on_host);
  const Context context{.step = {}, .packing = packings.back()};
  const at::Tensor y = subsampling.forward(x, packings, context, tape);
  EXPECT_LT(relative_error(y, truth.detach()), kTolerance);
  subsampling.backward(dy.clone(), packings, context, tape);
  EXPECT_EQ(tape.num_open(), 0);
  expect_same_gradients(store, leaves);
}

TEST(Subsampling, MatchesAutogradAtEveryTier) {
  at::manual_seed(4);
  for (const auto& [name, tier] : kTiers) {
    for (const int64_t factor : {2, 4})
      expect_subsampling({.factor = factor, .num_features = 5, .width = 12}, tier);
    expect_subsampling(
        {.kind = SubsamplingKind::kStacking, .factor = 3, .num_features = 5, .width = 12}, tier);
  }
}

TEST(Positions, LearnedGradientMatchesAutograd) {
  ParameterStore store;
  const Positions positions(store, "positions",
                            {.kind = PositionKind::kLearned, .width = 6, .max_frames = 12});
  store.allocate({});
  const Packing packing(kLengths, at::kCPU);
  at::Tensor x = at::randn({packing.num_frames(), 6});
  const at::Tensor dy = at::randn({packing.num_frames(), 6});
  const auto leaves = leaves_of(store);
  std::vector<at::Tensor> parts;
  for (const int64_t length : kLengths)
    parts.push_back(leaves.at("positions.weight").narrow(0, 0, length));
  const at::Tensor truth = x.to(at::kDouble) + at::cat(parts);
  truth.backward(dy.to(at::kDouble));
  positions.add(x, packing);
  positions.accumulate(dy, packing);
  EXPECT_LT(relative_error(x, truth.detach()), kTolerance);
  expect_same_gradients(store, leaves);

  const Packing longer({13}, at::kCPU);
  at::Tensor too_long = at::zeros({13, 6});
  EXPECT_THROW(positions.add(too_long, longer), DataError);
}

TEST(CtcHead, MatchesAutogradAtEveryTier) {
  at::manual_seed(5);
  const Packing packing({9, 6, 2}, at::kCPU);
  const std::vector<std::vector<int32_t>> labels = {
      {1, 2, 2}, {}, {3, 1, 2}};  // the last: too many
  const kernels::Labels on_device(labels, at::kCPU);
  const std::vector<float> weights = {0.5f, 0.25f, 1.0f};
  for (const auto& [name, tier] : kTiers) {
    ParameterStore store;
    const CtcHead head(store, "head", {.width = 8, .vocabulary = 4});
    store.allocate({});
    move_from_zero(store);
    const at::Tensor x = at::randn({17, 8});
    const auto leaves = leaves_of(store);
    const at::Tensor input = x.to(at::kDouble).set_requires_grad(true);
    const at::Tensor normed = at::layer_norm(input, {8}, leaves.at("head.norm.weight"),
                                             leaves.at("head.norm.bias"), 1e-5);
    const at::Tensor logits =
        at::addmm(leaves.at("head.bias"), normed, leaves.at("head.weight").t());
    std::vector<at::Tensor> losses;
    for (size_t u = 0; u < labels.size(); ++u) {
      const at::Tensor part =
          logits.narrow(0, packing.starts()[u], packing.lengths()[u]).unsqueeze(1);
      losses.push_back(at::ctc_loss(
          at::log_softmax(part, 2), at::tensor(labels[u], at::kLong), {packing.lengths()[u]},
          {static_cast<int64_t>(labels[u].size())}, 0, at::Reduction::Sum, /*zero_infinity=*/true));
    }
    (at::stack(losses) * at::tensor(weights, at::kDouble)).sum().backward();

    device::HostMemory host(at::kCPU);
    HostTape on_host(host);
    Tape tape({tier}, &on_host);
    const Context context{.step = {}, .packing = packing};
    const kernels::Ctc::Result result =
        head.forward(x.clone(), {.labels = on_device, .weights = weights}, context, tape);
    EXPECT_EQ(result.infeasible, std::vector<int64_t>{2});
    EXPECT_LT(test::loss_error(result.loss, at::stack(losses).detach()), kTolerance);
    EXPECT_LT(relative_error(head.backward(context, tape), input.grad()), kTolerance) << name;
    EXPECT_EQ(tape.num_open(), 0);
    expect_same_gradients(store, leaves);
  }
}

}  // namespace
}  // namespace sotto::nn
