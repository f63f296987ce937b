// Attention with relative positions as a layer, and its table of positions, against double
// precision and autograd.
#include "sotto/nn/blocks/relative_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sotto/core/error.h"
#include "support/tolerance.h"

namespace sotto::nn {
namespace {

using kernels::Packing;
using test::relative_error;

constexpr double kLayerTolerance = 1e-5;

using Leaves = std::map<std::string, at::Tensor>;

Leaves parameter_leaves(const ParameterStore& store) {
  Leaves leaves;
  for (const Parameter& parameter : store.parameters()) {
    leaves[parameter.spec.name] =
        parameter.value.to(at::kDouble).detach().clone().set_requires_grad(true);
  }
  return leaves;
}

// [2 L - 1, D] as ParakeetEncoderRelPositionalEncoding of transformers, in double.
at::Tensor sinusoids_of(int64_t longest, int64_t width) {
  const at::Tensor distance = at::arange(longest - 1, -longest, -1, at::kDouble).unsqueeze(1);
  const at::Tensor exponent = at::arange(0, width, 2, at::kDouble) / static_cast<double>(width);
  const at::Tensor angle = distance / at::pow(10'000.0, exponent);
  return at::stack({angle.sin(), angle.cos()}, 2).reshape({-1, width});
}

TEST(RelativePositions, AreThoseOfTransformers) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{1}, {2, 5, 3}, {700}, {1500, 20}}) {
    const Packing packing(lengths, at::kCPU);
    const at::Tensor truth = sinusoids_of(packing.max_length(), 36);
    EXPECT_LT(relative_error(RelativePositions(packing, 36, at::kFloat).table(), truth), 1e-6);
    EXPECT_LT(relative_error(RelativePositions(packing, 36, at::kBFloat16).table(), truth), 4e-3);
  }
  // Distance 1, then 0, then -1: sine and cosine of the first frequency are those of one radian.
  const RelativePositions positions(Packing({2}, at::kCPU), 4, at::kFloat);
  const at::Tensor& table = positions.table();
  EXPECT_NEAR(table[0][0].item<double>(), std::sin(1.0), 1e-6);
  EXPECT_NEAR(table[0][1].item<double>(), std::cos(1.0), 1e-6);
  EXPECT_EQ(table[1][0].item<double>(), 0.0);
  EXPECT_NEAR(table[2][0].item<double>(), -std::sin(1.0), 1e-6);
  EXPECT_NEAR(table[2][3].item<double>(), std::cos(0.01), 1e-6);
}

// One utterance by ATen: x [T, D].
at::Tensor attended(const at::Tensor& x, const Leaves& leaves,
                    const RelativeAttentionOptions& options) {
  const int64_t length = x.size(0), width = options.width, heads = options.attention.num_heads;
  const auto leaf = [&](const std::string& name) { return leaves.at("attention." + name); };
  const at::Tensor normed =
      at::layer_norm(x, {width}, leaf("norm.weight"), leaf("norm.bias"), 1e-5);
  const auto parts = at::linear(normed, leaf("qkv.weight"), leaf("qkv.bias"))
                         .view({length, 3, heads, -1})
                         .permute({1, 2, 0, 3})
                         .unbind(0);  // [H, T, D / H] each
  const at::Tensor u = leaf("content_bias").view({heads, 1, -1});
  const at::Tensor v = leaf("position_bias").view({heads, 1, -1});
  const at::Tensor p = at::matmul(sinusoids_of(length, width), leaf("position.weight").t())
                           .view({2 * length - 1, heads, -1})
                           .transpose(0, 1);
  const at::Tensor by_row = at::matmul(parts[0] + v, p.transpose(1, 2));  // [H, T, 2 T - 1]
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < length; ++i)
    rows.push_back(by_row.select(1, i).narrow(1, length - 1 - i, length));
  const int64_t head_size = width / heads;
  const at::Tensor scores =
      (at::matmul(parts[0] + u, parts[1].transpose(1, 2)) + at::stack(rows, 1)) /
      std::sqrt(static_cast<double>(head_size));
  const at::Tensor frames = at::arange(length);
  const at::Tensor distance = frames.unsqueeze(0) - frames.unsqueeze(1);  // key - query
  const at::Tensor hidden = (distance < -options.attention.left.value_or(length)) |
                            (distance > options.attention.right.value_or(length));
  const at::Tensor y = at::matmul(at::softmax(scores.masked_fill(hidden, -INFINITY), 2), parts[2]);
  return x + at::linear(y.transpose(0, 1).reshape({length, width}), leaf("out.weight"),
                        leaf("out.bias"));
}

// The layer as part of a block with no other part.
constexpr std::array<SlotSpec, 1 + RelativeAttention::kSlots.size()> kBlockSlots = {{
    {.name = "input"},
    RelativeAttention::kSlots[0],
    RelativeAttention::kSlots[1],
    RelativeAttention::kSlots[2],
    RelativeAttention::kSlots[3],
    RelativeAttention::kSlots[4],
}};

struct Step {
  at::Tensor y;
  at::Tensor dx;
};

Step run_layer(const RelativeAttention& layer, const at::Tensor& x, const at::Tensor& dy,
               const Context& context, Tier tier) {
  LayerTape tape(kBlockSlots, tier);
  tape.put(0, {x});
  const PartInput input = [&]() -> const at::Tensor& { return tape.kept(0).front(); };
  Step step;
  step.y = layer.result(input, context, tape).clone();
  layer.settle(tape);
  tape.begin_backward();
  layer.release(tape);
  step.dx = layer.backward(dy, input, context, tape);
  return step;
}

class RelativeAttentionLayer : public ::testing::TestWithParam<Tier> {};

TEST_P(RelativeAttentionLayer, MatchesAutograd) {
  at::manual_seed(4);
  for (const auto window : {std::optional<int64_t>(), std::optional<int64_t>(3)}) {
    const RelativeAttentionOptions options{
        .width = 24,
        .attention = {.num_heads = 3, .left = window, .right = window},
        .dropout = 0.0,
        .first_slot = 1};
    ParameterStore store;
    const RelativeAttention layer(store, "attention", options);
    store.allocate({});
    for (Parameter& parameter : store.parameters())
      parameter.value.add_(at::rand(parameter.value.sizes()) * 0.3);
    const std::vector<int64_t> lengths = {7, 1, 12, 4};
    const Packing packing(lengths, at::kCPU);
    const at::Tensor x = at::randn({packing.num_frames(), options.width});
    const at::Tensor dy = at::randn(x.sizes());

    const Leaves leaves = parameter_leaves(store);
    const at::Tensor input = x.to(at::kDouble).detach().clone().set_requires_grad(true);
    std::vector<at::Tensor> parts;
    for (const at::Tensor& part : input.split_with_sizes(lengths))
      parts.push_back(attended(part, leaves, options));
    const at::Tensor truth = at::cat(parts);
    truth.backward(dy.to(at::kDouble));

    const RelativePositions positions(packing, options.width, x.options());
    const Context context{.step = {}, .packing = packing, .positions = &positions};
    const Step step = run_layer(layer, x, dy, context, GetParam());
    EXPECT_LT(relative_error(step.y, truth.detach()), kLayerTolerance);
    EXPECT_LT(relative_error(step.dx, input.grad()), kLayerTolerance);
    for (const Parameter& parameter : store.parameters()) {
      EXPECT_LT(relative_error(parameter.gradient, leaves.at(parameter.spec.name).grad()),
                kLayerTolerance)
          << parameter.spec.name;
    }
  }
}

// With dropout of the result, in bf16: recomputation gives the same bits.
TEST_P(RelativeAttentionLayer, GivesTheSameBitsAtEveryTier) {
  const auto run = [](Tier tier) {
    at::manual_seed(5);
    ParameterStore store;
    const RelativeAttention layer(
        store, "attention",
        {.width = 32, .attention = {.num_heads = 2}, .dropout = 0.2, .first_slot = 1});
    store.allocate({.weights = at::kBFloat16, .small_below = 1});
    const Packing packing({9, 30, 2}, at::kCPU);
    const at::Tensor x = at::randn({41, 32}).to(at::kBFloat16), dy = at::randn({41, 32}).to(x);
    const RelativePositions positions(packing, 32, x.options());
    const Context context{.step = {}, .packing = packing, .positions = &positions};
    const Step step = run_layer(layer, x, dy, context, tier);
    std::vector<at::Tensor> results = {step.y, step.dx};
    for (const Parameter& parameter : store.parameters())
      results.push_back(parameter.gradient.clone());
    return results;
  };
  const std::vector<at::Tensor> keeping_all = run(Tier::kNone), results = run(GetParam());
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_TRUE(at::equal(results[i], keeping_all[i])) << "result " << i;
}

INSTANTIATE_TEST_SUITE_P(EveryTier, RelativeAttentionLayer,
                         ::testing::Values(Tier::kNone, Tier::kNorms, Tier::kFfn, Tier::kQkv,
                                           Tier::kBlock, Tier::kHost));

TEST(RelativeAttentionOptions, RefuseWhatItsKernelLacks) {
  ParameterStore store;
  const auto message_of = [&](const RelativeAttentionOptions& options) -> std::string {
    try {
      const RelativeAttention layer(store, "attention", options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message_of({.attention_dropout = 0.1}).find("attention dropout of 0.1"),
            std::string::npos);
  EXPECT_NE(message_of({.attention = {.variant = kernels::Attention::Variant::kPlain}})
                .find("plain attention"),
            std::string::npos);
}

}  // namespace
}  // namespace sotto::nn
