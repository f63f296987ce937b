// Attention with a bias of the scores: values and gradients, alone and together with windows.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "sotto/core/error.h"
#include "sotto/device/target.h"
#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/base/cost.h"
#include "support/attention_reference.h"
#include "support/kernel_case_tools.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace {

using Options = Attention::Options;
using Variant = Attention::Variant;
using test::random_values;

int64_t num_scores(const Packing& packing, int64_t num_heads) {
  int64_t count = 0;
  for (const int64_t length : packing.lengths()) count += num_heads * length * length;
  return count;
}

struct Inputs {
  at::Tensor qkv;
  at::Tensor dy;
  at::Tensor bias;
};

Inputs inputs_for(const Packing& packing, int64_t num_heads, int64_t head_size,
                  at::ScalarType type = at::kFloat) {
  const int64_t width = num_heads * head_size;
  return {.qkv = random_values({packing.num_frames(), 3 * width}, 1).to(type),
          .dy = random_values({packing.num_frames(), width}, 2).to(type),
          .bias = random_values({num_scores(packing, num_heads)}, 3).to(type)};
}

struct Outputs {
  Attention::Result forward;
  at::Tensor dqkv;
  at::Tensor d_bias;  // undefined without a bias
};

// The gradient of the bias is full of NaN before: what is not written shows.
Outputs run(const Inputs& in, const Packing& packing, const Options& options) {
  Outputs out;
  if (in.bias.defined())
    out.d_bias = at::full_like(in.bias, std::numeric_limits<double>::quiet_NaN());
  const Attention::Bias given{.values = in.bias, .gradient = &out.d_bias};
  const Attention::Bias* bias = in.bias.defined() ? &given : nullptr;
  out.forward = Attention::forward(in.qkv, packing, options, bias);
  out.dqkv = Attention::backward(
      {.dy = in.dy, .qkv = in.qkv, .y = out.forward.y, .softmax = out.forward.softmax}, packing,
      options, bias);
  return out;
}

void expect_same(const Outputs& a, const Outputs& b) {
  EXPECT_TRUE(at::equal(a.forward.y, b.forward.y));
  EXPECT_TRUE(at::equal(a.forward.softmax, b.forward.softmax));
  EXPECT_TRUE(at::equal(a.dqkv, b.dqkv));
}

void expect_truth(const std::vector<int64_t>& lengths, int64_t head_size, const Options& options,
                  at::ScalarType type) {
  const Packing packing(lengths, at::kCPU);
  const Inputs in = inputs_for(packing, options.num_heads, head_size, type);
  const Outputs ours = run(in, packing, options);
  const test::AttentionTruth truth = test::attention_truth(
      {.qkv = in.qkv.to(at::kDouble), .dy = in.dy.to(at::kDouble), .bias = in.bias.to(at::kDouble)},
      packing, options);
  const double tolerance = test::kernel_tolerance(type);
  EXPECT_LE(test::relative_error(ours.forward.y, truth.y), tolerance);
  EXPECT_LE(test::relative_error(ours.dqkv, truth.dqkv), tolerance);
  EXPECT_LE(test::relative_error(ours.d_bias, truth.d_bias), tolerance);
  if (options.variant == Variant::kPlain) return;
  EXPECT_LE(test::relative_error(ours.forward.softmax, truth.logsumexp),
            test::kernel_tolerance(at::kFloat));
}

// Lengths around the sizes of tiles, and one frame.
const std::vector<int64_t> kLengths{63, 1, 130, 64, 17};

struct Window {
  std::optional<int64_t> left;
  std::optional<int64_t> right;
};

const std::vector<Window> kWindows{{{}, {}}, {{}, 0}, {20, 0}, {1, 0}, {7, 3}, {3, 70}};

class AttentionBias : public ::testing::TestWithParam<std::tuple<Variant, at::ScalarType>> {};

TEST_P(AttentionBias, IsAddedInsideTheWindow) {
  const auto& [variant, type] = GetParam();
  for (const int64_t heads : {1, 4}) {
    for (const Window& window : kWindows) {
      SCOPED_TRACE(::testing::Message() << heads << " heads, left " << window.left.value_or(-1)
                                        << " right " << window.right.value_or(-1));
      expect_truth(
          kLengths, 24,
          {.num_heads = heads, .left = window.left, .right = window.right, .variant = variant},
          type);
    }
  }
}

TEST_P(AttentionBias, SpansManyTiles) {
  const auto& [variant, type] = GetParam();
  expect_truth({700}, 32, {.num_heads = 1, .variant = variant}, type);
  expect_truth({40, 500}, 20, {.num_heads = 2, .left = 90, .right = 200, .variant = variant}, type);
}

TEST_P(AttentionBias, HasNoEffectIfZero) {
  const auto& [variant, type] = GetParam();
  const Packing packing(kLengths, at::kCPU);
  for (const Window& window : kWindows) {
    const Options options{
        .num_heads = 2, .left = window.left, .right = window.right, .variant = variant};
    Inputs in = inputs_for(packing, 2, 20, type);
    in.bias.zero_();
    const Outputs with = run(in, packing, options);
    in.bias = at::Tensor();
    expect_same(with, run(in, packing, options));
  }
}

// Not even a NaN.
TEST_P(AttentionBias, HasNoEffectOutsideTheWindow) {
  const auto& [variant, type] = GetParam();
  const int64_t length = 150;
  const Packing packing({length}, at::kCPU);
  const Options options{.num_heads = 1, .left = 30, .right = 4, .variant = variant};
  Inputs in = inputs_for(packing, 1, 20, type);
  const Outputs before = run(in, packing, options);
  const at::Tensor frames = at::arange(length);
  const at::Tensor distance = frames.unsqueeze(0) - frames.unsqueeze(1);  // key - query
  const at::Tensor hidden = ((distance < -30) | (distance > 4)).view(-1);
  in.bias.masked_fill_(hidden, std::numeric_limits<double>::quiet_NaN());
  const Outputs after = run(in, packing, options);
  expect_same(before, after);
  EXPECT_TRUE(at::equal(before.d_bias, after.d_bias));
  EXPECT_EQ(after.d_bias.masked_select(hidden).count_nonzero().item<int64_t>(), 0);
}

TEST_P(AttentionBias, ChangesNothingForOneFrame) {
  const auto& [variant, type] = GetParam();
  const Packing packing({1, 1, 1}, at::kCPU);
  const Inputs in = inputs_for(packing, 2, 12, type);
  const Outputs out = run(in, packing, {.num_heads = 2, .variant = variant});
  EXPECT_TRUE(at::equal(out.forward.y, in.qkv.narrow(1, 48, 24)));
  EXPECT_TRUE(at::equal(out.dqkv.narrow(1, 48, 24), in.dy));
  // One probability, which is 1 whatever the score is; what is left are sums in another order.
  EXPECT_LE(out.d_bias.abs().max().item<double>(), test::kernel_tolerance(at::kFloat));
}

// An utterance finds its part of the bias wherever it is in the pack.
TEST_P(AttentionBias, GivesTheSameBitsInAnyPack) {
  const auto& [variant, type] = GetParam();
  const Options options{.num_heads = 3, .left = 40, .variant = variant};
  const Packing together({70, 150, 9}, at::kCPU);
  const Inputs in = inputs_for(together, 3, 20, type);
  const Outputs among_others = run(in, together, options);
  const int64_t first = 3 * 70 * 70, size = 3 * 150 * 150;
  const Inputs alone{.qkv = in.qkv.narrow(0, 70, 150),
                     .dy = in.dy.narrow(0, 70, 150),
                     .bias = in.bias.narrow(0, first, size)};
  const Outputs by_itself = run(alone, Packing({150}, at::kCPU), options);
  EXPECT_TRUE(at::equal(among_others.forward.y.narrow(0, 70, 150), by_itself.forward.y));
  EXPECT_TRUE(at::equal(among_others.dqkv.narrow(0, 70, 150), by_itself.dqkv));
  EXPECT_TRUE(at::equal(among_others.d_bias.narrow(0, first, size), by_itself.d_bias));
}

// With one head, cores are idle unless backward is split more finely: both splits are compared.
TEST_P(AttentionBias, GivesTheSameBitsOnAnyNumberOfCores) {
  const auto& [variant, type] = GetParam();
  const int before = at::get_num_threads();
  for (const Window& window : kWindows) {
    const Options options{
        .num_heads = 1, .left = window.left, .right = window.right, .variant = variant};
    const Packing packing({500, 30}, at::kCPU);
    const Inputs in = inputs_for(packing, 1, 24, type);
    at::set_num_threads(1);
    const Outputs on_one = run(in, packing, options);
    at::set_num_threads(3);
    const Outputs on_three = run(in, packing, options);
    expect_same(on_one, on_three);
    EXPECT_TRUE(at::equal(on_one.d_bias, on_three.d_bias));
  }
  at::set_num_threads(before);
}

TEST_P(AttentionBias, HasNoGradientUnlessRequested) {
  const auto& [variant, type] = GetParam();
  const Packing packing({70, 9}, at::kCPU);
  const Options options{.num_heads = 2, .right = 0, .variant = variant};
  const Inputs in = inputs_for(packing, 2, 20, type);
  const Outputs wanted = run(in, packing, options);
  const Attention::Bias bias{.values = in.bias};
  Outputs unwanted;
  unwanted.forward = Attention::forward(in.qkv, packing, options, &bias);
  unwanted.dqkv = Attention::backward(
      {.dy = in.dy, .qkv = in.qkv, .y = unwanted.forward.y, .softmax = unwanted.forward.softmax},
      packing, options, &bias);
  expect_same(wanted, unwanted);
}

// Tiled reads the bias once per direction, only for visible pairs. Plain reads all of it in
// forward. Both write its whole gradient.
TEST_P(AttentionBias, CostsBytesButNoProducts) {
  const auto& [variant, type] = GetParam();
  const bool tiled = variant == Variant::kTiled;
  const Packing packing({5, 7}, at::kCPU);
  const Options options{.num_heads = 4, .right = 0, .variant = variant};
  const auto costs = [&](const Inputs& in, const std::string& direction) {
    const CostRecorder recorder;
    run(in, packing, options);
    return recorder.by_kernel().at((tiled ? "attention." : "attention_plain.") + direction).total;
  };
  const Inputs with = inputs_for(packing, 4, 8, type);
  const Inputs without{.qkv = with.qkv, .dy = with.dy, .bias = {}};
  const auto all = static_cast<double>(with.bias.nbytes());
  const auto seen = static_cast<double>(4 * (15 + 28) * with.bias.itemsize());
  const Cost forward = costs(with, "forward"), backward = costs(with, "backward");
  EXPECT_EQ(forward.bytes - costs(without, "forward").bytes, tiled ? seen : all);
  EXPECT_EQ(backward.bytes - costs(without, "backward").bytes, tiled ? seen + all : all);
  EXPECT_EQ(forward.flops, costs(without, "forward").flops);
  EXPECT_EQ(backward.flops, costs(without, "backward").flops);
}

// The libraries do not accept a bias: the saved softmax has the shape of our own kernel.
TEST(AttentionBiasOnGpu, UsesOurKernel) {
  const device::TargetScope target({.processor = device::Processor::kCuda, .capability = 90});
  const Packing packing({50, 33}, at::kMeta);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto options = at::TensorOptions().device(at::kMeta).dtype(type);
    const at::Tensor qkv = at::empty({83, 3 * 32}, options), dy = at::empty({83, 32}, options);
    const at::Tensor values = at::empty({num_scores(packing, 2)}, options);
    at::Tensor gradient = at::empty_like(values);
    const Attention::Bias bias{.values = values, .gradient = &gradient};
    const Attention::Result result = Attention::forward(qkv, packing, {.num_heads = 2}, &bias);
    EXPECT_EQ(result.softmax.sizes(), at::IntArrayRef({2, 83}));
    const at::Tensor dqkv =
        Attention::backward({.dy = dy, .qkv = qkv, .y = result.y, .softmax = result.softmax},
                            packing, {.num_heads = 2}, &bias);
    EXPECT_EQ(dqkv.sizes(), qkv.sizes());
  }
}

TEST(AttentionBiasShape, MustMatchThePack) {
  const Packing packing({3, 4}, at::kCPU);
  const at::Tensor qkv = at::ones({7, 36});
  const auto forward = [&](const at::Tensor& values, at::Tensor* gradient) {
    const Attention::Bias bias{.values = values, .gradient = gradient};
    Attention::forward(qkv, packing, {.num_heads = 2}, &bias);
  };
  const at::Tensor good = at::ones({2 * (9 + 16)});
  at::Tensor short_one = good.narrow(0, 1, 49), of_doubles = good.to(at::kDouble);
  at::Tensor with_gaps = at::ones({2 * (9 + 16), 2}).select(1, 0);
  EXPECT_NO_THROW(forward(good, nullptr));
  for (at::Tensor& bad : std::vector{short_one, of_doubles, with_gaps}) {
    EXPECT_THROW(forward(bad, nullptr), InternalError);
    EXPECT_THROW(forward(good, &bad), InternalError);
  }
}

std::string name_of(const ::testing::TestParamInfo<AttentionBias::ParamType>& info) {
  const std::string variant = std::get<0>(info.param) == Variant::kTiled ? "Tiled" : "Plain";
  return variant + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Both, AttentionBias,
                         ::testing::Combine(::testing::Values(Variant::kTiled, Variant::kPlain),
                                            ::testing::Values(at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         name_of);

}  // namespace
}  // namespace sotto::kernels
