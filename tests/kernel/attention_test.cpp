// What the table does not ask of attention: windows, tiles, large scores, odd heads, both variants.
#include "sotto/kernels/attention/attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/device/target.h"
#include "sotto/kernels/base/cost.h"
#include "support/attention_reference.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace attention_test {

using Options = Attention::Options;
using Variant = Attention::Variant;

at::Tensor random_values(at::IntArrayRef sizes, uint64_t seed) {
  at::Tensor values = at::empty(sizes);
  const RandomStream stream({.seed = seed});
  for (int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<float>()[i] = static_cast<float>(stream.normal(static_cast<uint64_t>(i)));
  }
  return values;
}

struct Inputs {
  at::Tensor qkv;
  at::Tensor dy;
};

Inputs inputs_for(const Packing& packing, int64_t width, at::ScalarType type = at::kFloat) {
  return {.qkv = random_values({packing.num_frames(), 3 * width}, 1).to(type),
          .dy = random_values({packing.num_frames(), width}, 2).to(type)};
}

struct Outputs {
  Attention::Result forward;
  at::Tensor dqkv;
};

Outputs run(const Inputs& in, const Packing& packing, const Options& options) {
  Outputs out{.forward = Attention::forward(in.qkv, packing, options), .dqkv = {}};
  out.dqkv = Attention::backward(
      {.dy = in.dy, .qkv = in.qkv, .y = out.forward.y, .softmax = out.forward.softmax}, packing,
      options);
  return out;
}

void expect_truth(const std::vector<int64_t>& lengths, int64_t head_size, const Options& options,
                  at::ScalarType type = at::kFloat) {
  const Packing packing(lengths, at::kCPU);
  const Inputs in = inputs_for(packing, options.num_heads * head_size, type);
  const Outputs ours = run(in, packing, options);
  const test::AttentionTruth truth = test::attention_truth(
      {.qkv = in.qkv.to(at::kDouble), .dy = in.dy.to(at::kDouble)}, packing, options);
  const double tolerance = test::kernel_tolerance(type);
  EXPECT_LE(test::relative_error(ours.forward.y, truth.y), tolerance);
  EXPECT_LE(test::relative_error(ours.dqkv, truth.dqkv), tolerance);
  if (options.variant == Variant::kPlain) return;
  EXPECT_LE(test::relative_error(ours.forward.softmax, truth.logsumexp),
            test::kernel_tolerance(at::kFloat));
}

// Lengths around the sizes of tiles, and one frame.
const std::vector<int64_t> kLengths{63, 1, 130, 64, 65, 17};

struct Window {
  std::optional<int64_t> left;
  std::optional<int64_t> right;
};

const std::vector<Window> kWindows{{{}, {}}, {{}, 0}, {20, 0},  {0, 0},   {0, {}},
                                   {7, 3},   {3, 70}, {64, 64}, {100, 1}, {{}, 5}};

class AttentionVariants : public ::testing::TestWithParam<std::tuple<Variant, at::ScalarType>> {};

TEST_P(AttentionVariants, SeeOnlyTheirWindow) {
  const auto& [variant, type] = GetParam();
  for (const Window& window : kWindows) {
    SCOPED_TRACE(::testing::Message()
                 << "left " << window.left.value_or(-1) << " right " << window.right.value_or(-1));
    expect_truth(kLengths, 16,
                 {.num_heads = 2, .left = window.left, .right = window.right, .variant = variant},
                 type);
  }
}

TEST_P(AttentionVariants, SupportAnyHeadSize) {
  const auto& [variant, type] = GetParam();
  for (const int64_t head_size : {1, 10, 24, 64, 80, 256}) {
    SCOPED_TRACE(head_size);
    expect_truth({70, 3}, head_size, {.num_heads = 3, .variant = variant}, type);
  }
}

TEST_P(AttentionVariants, SpanManyTiles) {
  const auto& [variant, type] = GetParam();
  expect_truth({700}, 32, {.num_heads = 1, .variant = variant}, type);
  expect_truth({700}, 32, {.num_heads = 1, .left = 150, .right = 0, .variant = variant}, type);
  expect_truth({40, 700}, 20, {.num_heads = 2, .left = 90, .right = 200, .variant = variant}, type);
}

TEST_P(AttentionVariants, OneFrameGivesItsValue) {
  const auto& [variant, type] = GetParam();
  const Packing packing({1, 1, 1}, at::kCPU);
  const Inputs in = inputs_for(packing, 24, type);
  const Outputs out = run(in, packing, {.num_heads = 2, .variant = variant});
  EXPECT_TRUE(at::equal(out.forward.y, in.qkv.narrow(1, 48, 24)));
  EXPECT_TRUE(at::equal(out.dqkv.narrow(1, 48, 24), in.dy));
}

TEST_P(AttentionVariants, GiveTheSameBitsInAnyPack) {
  const auto& [variant, type] = GetParam();
  for (const Window& window : kWindows) {
    const Options options{
        .num_heads = 2, .left = window.left, .right = window.right, .variant = variant};
    const Packing together({70, 150, 9}, at::kCPU);
    const Inputs in = inputs_for(together, 20, type);
    const Outputs among_others = run(in, together, options);
    const Inputs alone{.qkv = in.qkv.narrow(0, 70, 150), .dy = in.dy.narrow(0, 70, 150)};
    const Outputs by_itself = run(alone, Packing({150}, at::kCPU), options);
    EXPECT_TRUE(at::equal(among_others.forward.y.narrow(0, 70, 150), by_itself.forward.y));
    EXPECT_TRUE(at::equal(among_others.dqkv.narrow(0, 70, 150), by_itself.dqkv));
  }
}

// With one head, cores are idle unless backward is split more finely: both splits are compared.
TEST_P(AttentionVariants, GiveTheSameBitsOnAnyNumberOfCores) {
  const auto& [variant, type] = GetParam();
  const int before = at::get_num_threads();
  for (const Window& window : kWindows) {
    const Options options{
        .num_heads = 1, .left = window.left, .right = window.right, .variant = variant};
    const Packing packing({500, 30}, at::kCPU);
    const Inputs in = inputs_for(packing, 24, type);
    at::set_num_threads(1);
    const Outputs on_one = run(in, packing, options);
    at::set_num_threads(3);
    const Outputs on_three = run(in, packing, options);
    EXPECT_TRUE(at::equal(on_one.forward.y, on_three.forward.y));
    EXPECT_TRUE(at::equal(on_one.forward.softmax, on_three.forward.softmax));
    EXPECT_TRUE(at::equal(on_one.dqkv, on_three.dqkv));
  }
  at::set_num_threads(before);
}

TEST_P(AttentionVariants, WindowLongerThanTheUtteranceHasNoEffect) {
  const auto& [variant, type] = GetParam();
  const Packing packing({90, 14}, at::kCPU);
  const Inputs in = inputs_for(packing, 32, type);
  const Outputs full = run(in, packing, {.num_heads = 2, .variant = variant});
  for (const int64_t reach : {int64_t{89}, int64_t{500}, std::numeric_limits<int64_t>::max()}) {
    const Outputs windowed =
        run(in, packing, {.num_heads = 2, .left = reach, .right = reach, .variant = variant});
    EXPECT_TRUE(at::equal(full.forward.y, windowed.forward.y));
    EXPECT_TRUE(at::equal(full.dqkv, windowed.dqkv));
  }
}

// Scores that are exact in every type and thousands apart: the softmax selects one key.
TEST_P(AttentionVariants, AreSafeForLargeScores) {
  const auto& [variant, type] = GetParam();
  const int64_t length = 200, width = 16;
  const Packing packing({length}, at::kCPU);
  for (const double sign : {1.0, -1.0}) {
    Inputs in = inputs_for(packing, width, type);
    in.qkv.narrow(1, 0, width).fill_(sign * 128.0);
    in.qkv.narrow(1, width, width).copy_(at::arange(length).unsqueeze(1).expand({length, width}));
    const int64_t chosen = sign > 0.0 ? length - 1 : 0;
    const Outputs out = run(in, packing, {.num_heads = 1, .variant = variant});
    EXPECT_TRUE(
        at::equal(out.forward.y, in.qkv[chosen].slice(0, 2 * width).unsqueeze(0).expand_as(in.dy)));
    EXPECT_TRUE(at::isfinite(out.dqkv).all().item<bool>());
    EXPECT_EQ(out.dqkv.narrow(1, 2 * width, width).abs().sum(1).count_nonzero().item<int64_t>(), 1);
  }
}

TEST(Attention, PlainAgreesWithTiled) {
  const Packing packing({100, 1, 333}, at::kCPU);
  const Inputs in = inputs_for(packing, 96);
  for (const Window& window : kWindows) {
    const Options tiled{.num_heads = 3, .left = window.left, .right = window.right};
    Options plain = tiled;
    plain.variant = Variant::kPlain;
    const Outputs a = run(in, packing, tiled);
    const Outputs b = run(in, packing, plain);
    const double tolerance = test::kernel_tolerance(at::kFloat);
    EXPECT_LE(test::relative_error(b.forward.y, a.forward.y), tolerance);
    EXPECT_LE(test::relative_error(b.dqkv, a.dqkv), tolerance);
  }
}

TEST(Attention, PlainProbabilitiesSumToOne) {
  const Packing packing({5, 70}, at::kCPU);
  const Inputs in = inputs_for(packing, 8);
  const Attention::Result result =
      Attention::forward(in.qkv, packing, {.num_heads = 2, .right = 0, .variant = Variant::kPlain});
  ASSERT_EQ(result.softmax.numel(), 2 * (5 * 5 + 70 * 70));
  const at::Tensor last = result.softmax.slice(0, 2 * 5 * 5).view({2, 70, 70});
  EXPECT_LT(test::relative_error(last.sum(2), at::ones({2, 70})), 1e-6);
  EXPECT_EQ(last.triu(1).count_nonzero().item<int64_t>(), 0);
}

TEST(Attention, CountsVisiblePairs) {
  const Packing packing({1, 6, 40}, at::kCPU);
  for (const Window& window : kWindows) {
    const Options options{.num_heads = 4, .left = window.left, .right = window.right};
    int64_t pairs = 0;
    for (const int64_t length : packing.lengths()) {
      for (int64_t query = 0; query < length; ++query) {
        for (int64_t key = 0; key < length; ++key) {
          pairs += key >= query - window.left.value_or(length) &&
                   key <= query + window.right.value_or(length);
        }
      }
    }
    EXPECT_EQ(Attention::num_pairs(packing, options), pairs);
    const CostRecorder recorder;
    run(inputs_for(packing, 32), packing, options);
    EXPECT_EQ(recorder.by_kernel().at("attention.forward").total.flops, 4.0 * 32 * pairs);
    EXPECT_EQ(recorder.by_kernel().at("attention.backward").total.flops, 10.0 * 32 * pairs);
  }
}

// Library kernels support certain head sizes; others cost as much as the next larger one.
TEST(Attention, CostUsesComputedHeadSize) {
  const Packing packing({5, 7}, at::kMeta);
  const auto pairs = static_cast<double>(Attention::num_pairs(packing, {}));
  const auto cost_of = [&](at::ScalarType type, int64_t head_size) {
    const device::TargetScope target({.processor = device::Processor::kCuda, .capability = 90});
    const at::Tensor qkv =
        at::empty({12, 3 * head_size}, at::TensorOptions(type).device(at::kMeta));
    const CostRecorder recorder;
    Attention::forward(qkv, packing, {.num_heads = 1});
    return recorder.by_kernel().at("attention.forward").total.flops;
  };
  EXPECT_EQ(cost_of(at::kBFloat16, 64), 4.0 * 64 * pairs);
  EXPECT_EQ(cost_of(at::kBFloat16, 80), 4.0 * 96 * pairs);
  EXPECT_EQ(cost_of(at::kFloat, 80), 4.0 * 128 * pairs);
}

// In the backward of efficient attention, one multiprocessor computes a whole head of an utterance.
TEST(Attention, CostIncludesWaitForLongestUtterance) {
  const auto backward_of = [&](const std::vector<int64_t>& lengths, int64_t num_sms) {
    const device::TargetScope target(
        {.processor = device::Processor::kCuda, .capability = 90, .num_sms = num_sms});
    const Packing packing(lengths, at::kMeta);
    const auto options = at::device(at::kMeta);
    const at::Tensor qkv = at::empty({packing.num_frames(), 3 * 128}, options);
    const at::Tensor dy = at::empty({packing.num_frames(), 128}, options);
    const CostRecorder recorder;
    const auto [y, softmax] = Attention::forward(qkv, packing, {.num_heads = 2});
    Attention::backward({.dy = dy, .qkv = qkv, .y = y, .softmax = softmax}, packing,
                        {.num_heads = 2});
    return recorder.by_kernel().at("attention.backward").total.flops;
  };
  const double one = backward_of({50}, 1);
  EXPECT_EQ(backward_of({50, 50}, 4), 2 * one);
  // Four of eight have nothing to do.
  EXPECT_EQ(backward_of({50, 50}, 8), 4 * one);
  EXPECT_EQ(backward_of({50, 10}, 8), 4 * one);
}

TEST(Attention, PlainCostsAllPairs) {
  const Packing packing({5, 7}, at::kCPU);
  const CostRecorder recorder;
  run(inputs_for(packing, 32), packing, {.num_heads = 4, .right = 0, .variant = Variant::kPlain});
  EXPECT_EQ(recorder.by_kernel().at("attention_plain.forward").total.flops, 4.0 * 32 * (25 + 49));
  EXPECT_EQ(recorder.by_kernel().at("attention_plain.backward").total.flops, 8.0 * 32 * (25 + 49));
}

TEST(Attention, RefusesMismatchedShapes) {
  const Packing packing({3, 4}, at::kCPU);
  const at::Tensor qkv = at::ones({7, 36});
  const at::Tensor dy = at::ones({7, 12});
  EXPECT_THROW(Attention::forward(qkv, packing, {.num_heads = 5}), InternalError);
  EXPECT_THROW(Attention::forward(qkv, packing, {.num_heads = 0}), InternalError);
  EXPECT_THROW(Attention::forward(qkv, packing, {.num_heads = 2, .left = -1}), InternalError);
  EXPECT_THROW(Attention::forward(at::ones({6, 36}), packing, {.num_heads = 2}), InternalError);
  EXPECT_THROW(Attention::forward(at::ones({7, 3 * 257}), packing, {.num_heads = 1}),
               InternalError);
  const Options tiled{.num_heads = 2};
  const Options plain{.num_heads = 2, .variant = Variant::kPlain};
  const Attention::Result kept = Attention::forward(qkv, packing, tiled);
  const Attention::BackwardInputs in{.dy = dy, .qkv = qkv, .y = kept.y, .softmax = kept.softmax};
  EXPECT_THROW(Attention::backward(in, packing, plain), InternalError);
  EXPECT_THROW(Attention::backward({.dy = qkv, .qkv = qkv, .y = kept.y, .softmax = kept.softmax},
                                   packing, tiled),
               InternalError);
}

std::string name_of(const ::testing::TestParamInfo<AttentionVariants::ParamType>& info) {
  const std::string variant = std::get<0>(info.param) == Variant::kTiled ? "Tiled" : "Plain";
  return variant + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Both, AttentionVariants,
                         ::testing::Combine(::testing::Values(Variant::kTiled, Variant::kPlain),
                                            ::testing::Values(at::kFloat, at::kBFloat16,
                                                              at::kHalf)),
                         name_of);

}  // namespace attention_test
}  // namespace sotto::kernels
