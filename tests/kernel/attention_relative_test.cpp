// Attention with relative positions: values and all gradients, alone and together with windows.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/device/target.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/attention/attention.h"
#include "sotto/kernels/base/cost.h"
#include "support/attention_reference.h"
#include "support/kernel_case_tools.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace attention_relative_test {

using Options = Attention::Options;
using test::random_values;

struct Inputs {
  at::Tensor qkv;
  at::Tensor dy;
  at::Tensor positions;
  at::Tensor content_bias;
  at::Tensor position_bias;
};

Inputs inputs_for(const Packing& packing, int64_t width, at::ScalarType type = at::kFloat) {
  return {.qkv = random_values({packing.num_frames(), 3 * width}, 1).to(type),
          .dy = random_values({packing.num_frames(), width}, 2).to(type),
          .positions = random_values({2 * packing.max_length() - 1, width}, 3).to(type),
          .content_bias = random_values({width}, 4).to(at::kFloat),
          .position_bias = random_values({width}, 5).to(at::kFloat)};
}

struct Outputs {
  Attention::Result forward;
  at::Tensor dqkv;
  at::Tensor d_positions;
  at::Tensor d_content_bias;
  at::Tensor d_position_bias;
};

Outputs run(const Inputs& in, const Packing& packing, const Options& options) {
  Outputs out;
  out.d_content_bias = test::float_zeros(in.content_bias.sizes(), in.content_bias);
  out.d_position_bias = test::float_zeros(in.position_bias.sizes(), in.position_bias);
  Attention::Relative::Gradients gradients{.content_bias = out.d_content_bias,
                                           .position_bias = out.d_position_bias};
  const Attention::Relative relative{.positions = in.positions,
                                     .content_bias = in.content_bias,
                                     .position_bias = in.position_bias,
                                     .gradients = &gradients};
  out.forward = Attention::forward(in.qkv, packing, options, &relative);
  out.dqkv = Attention::backward(
      {.dy = in.dy, .qkv = in.qkv, .y = out.forward.y, .softmax = out.forward.softmax}, packing,
      options, &relative);
  out.d_positions = gradients.positions;
  return out;
}

void expect_same(const Outputs& a, const Outputs& b) {
  EXPECT_TRUE(at::equal(a.forward.y, b.forward.y));
  EXPECT_TRUE(at::equal(a.forward.softmax, b.forward.softmax));
  EXPECT_TRUE(at::equal(a.dqkv, b.dqkv));
  EXPECT_TRUE(at::equal(a.d_positions, b.d_positions));
  EXPECT_TRUE(at::equal(a.d_content_bias, b.d_content_bias));
  EXPECT_TRUE(at::equal(a.d_position_bias, b.d_position_bias));
}

test::AttentionTruth truth_of(const Inputs& in, const Packing& packing, const Options& options) {
  return test::attention_truth({.qkv = in.qkv.to(at::kDouble),
                                .dy = in.dy.to(at::kDouble),
                                .positions = in.positions.to(at::kDouble),
                                .content_bias = in.content_bias.to(at::kDouble),
                                .position_bias = in.position_bias.to(at::kDouble)},
                               packing, options);
}

void expect_truth(const std::vector<int64_t>& lengths, int64_t head_size, const Options& options,
                  at::ScalarType type) {
  const Packing packing(lengths, at::kCPU);
  const Inputs in = inputs_for(packing, options.num_heads * head_size, type);
  const Outputs ours = run(in, packing, options);
  const test::AttentionTruth truth = truth_of(in, packing, options);
  const double tolerance = test::kernel_tolerance(type);
  EXPECT_LE(test::relative_error(ours.forward.y, truth.y), tolerance);
  EXPECT_LE(test::relative_error(ours.dqkv, truth.dqkv), tolerance);
  EXPECT_LE(test::relative_error(ours.d_positions, truth.d_positions), tolerance);
  EXPECT_LE(test::relative_error(ours.d_content_bias, truth.d_content_bias), tolerance);
  EXPECT_LE(test::relative_error(ours.d_position_bias, truth.d_position_bias), tolerance);
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

class AttentionRelative : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(AttentionRelative, IsAddedInsideTheWindow) {
  for (const int64_t heads : {1, 4}) {
    for (const Window& window : kWindows) {
      SCOPED_TRACE(::testing::Message() << heads << " heads, left " << window.left.value_or(-1)
                                        << " right " << window.right.value_or(-1));
      expect_truth(kLengths, 24, {.num_heads = heads, .left = window.left, .right = window.right},
                   GetParam());
    }
  }
}

TEST_P(AttentionRelative, SupportsAnyHeadSize) {
  for (const int64_t head_size : {1, 20, 36, 48, 64, 80, 128, 256}) {
    SCOPED_TRACE(head_size);
    expect_truth({70, 150, 5}, head_size, {.num_heads = 2}, GetParam());
  }
}

TEST_P(AttentionRelative, SpansManyTiles) {
  expect_truth({700}, 32, {.num_heads = 1}, GetParam());
  expect_truth({40, 500}, 20, {.num_heads = 2, .left = 90, .right = 200}, GetParam());
}

TEST_P(AttentionRelative, IsOrdinaryAttentionWithoutPositionsAndBiases) {
  const Packing packing(kLengths, at::kCPU);
  for (const Window& window : kWindows) {
    const Options options{.num_heads = 2, .left = window.left, .right = window.right};
    Inputs in = inputs_for(packing, 40, GetParam());
    in.positions.zero_();
    in.content_bias.zero_();
    const Outputs with = run(in, packing, options);
    const Attention::Result without = Attention::forward(in.qkv, packing, options);
    const at::Tensor dqkv = Attention::backward(
        {.dy = in.dy, .qkv = in.qkv, .y = without.y, .softmax = without.softmax}, packing, options);
    EXPECT_TRUE(at::equal(with.forward.y, without.y));
    EXPECT_TRUE(at::equal(with.forward.softmax, without.softmax));
    EXPECT_TRUE(at::equal(with.dqkv, dqkv));
  }
}

// Rows of distances that no utterance has, or that are outside of the window.
TEST_P(AttentionRelative, IgnoresPositionsThatDoNotOccur) {
  const Packing packing({150, 20}, at::kCPU);
  const Options options{.num_heads = 1, .left = 30, .right = 4};
  Inputs in = inputs_for(packing, 20, GetParam());
  const Outputs before = run(in, packing, options);
  const at::Tensor more = at::full({4, 20}, 3.0, in.positions.options());
  Inputs longer = in;
  longer.positions = at::cat({more, in.positions, more});
  longer.positions.narrow(0, 0, 4 + 149 - 30).fill_(100.0);
  longer.positions.narrow(0, 4 + 149 + 5, 149 - 4 + 4 - 5 + 1).fill_(-100.0);
  Outputs after = run(longer, packing, options);
  EXPECT_EQ(after.d_positions.narrow(0, 0, 4 + 149 - 30).count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(after.d_positions.narrow(0, 4 + 149 + 5, 149).count_nonzero().item<int64_t>(), 0);
  after.d_positions = after.d_positions.narrow(0, 4, 299);
  expect_same(before, after);
}

TEST_P(AttentionRelative, ChangesNothingForOneFrame) {
  const Packing packing({1, 1, 1}, at::kCPU);
  const Inputs in = inputs_for(packing, 24, GetParam());
  const Outputs out = run(in, packing, {.num_heads = 2});
  EXPECT_TRUE(at::equal(out.forward.y, in.qkv.narrow(1, 48, 24)));
  EXPECT_TRUE(at::equal(out.dqkv.narrow(1, 48, 24), in.dy));
  // One probability, which is 1 whatever the score is; what is left are sums in another order.
  EXPECT_LE(out.d_positions.abs().max().item<double>(), 1e-5);
}

// An utterance finds its rows of the table wherever it is in the pack.
TEST_P(AttentionRelative, GivesTheSameBitsInAnyPack) {
  const Options options{.num_heads = 3, .left = 40};
  const Packing together({70, 150, 9}, at::kCPU);
  const Inputs in = inputs_for(together, 60, GetParam());
  const Outputs among_others = run(in, together, options);
  Inputs alone = in;
  alone.qkv = in.qkv.narrow(0, 0, 70);
  alone.dy = in.dy.narrow(0, 0, 70);
  alone.positions = in.positions.narrow(0, 150 - 70, 2 * 70 - 1);
  const Outputs by_itself = run(alone, Packing({70}, at::kCPU), options);
  EXPECT_TRUE(at::equal(among_others.forward.y.narrow(0, 0, 70), by_itself.forward.y));
  EXPECT_TRUE(at::equal(among_others.dqkv.narrow(0, 0, 70), by_itself.dqkv));
}

TEST_P(AttentionRelative, GivesTheSameBitsOnAnyNumberOfCores) {
  const int before = at::get_num_threads();
  for (const Window& window : kWindows) {
    const Options options{.num_heads = 1, .left = window.left, .right = window.right};
    const Packing packing({500, 30, 77}, at::kCPU);
    const Inputs in = inputs_for(packing, 24, GetParam());
    at::set_num_threads(1);
    const Outputs on_one = run(in, packing, options);
    at::set_num_threads(3);
    expect_same(on_one, run(in, packing, options));
  }
  at::set_num_threads(before);
}

TEST_P(AttentionRelative, AddsToTheGradientsOfBiases) {
  const Packing packing({20, 9}, at::kCPU);
  const Inputs in = inputs_for(packing, 24, GetParam());
  const Outputs once = run(in, packing, {.num_heads = 2});
  at::Tensor content = at::ones({24}), position = at::full({24}, 2.0f);
  Attention::Relative::Gradients gradients{.content_bias = content, .position_bias = position};
  const Attention::Relative relative{.positions = in.positions,
                                     .content_bias = in.content_bias,
                                     .position_bias = in.position_bias,
                                     .gradients = &gradients};
  Attention::backward(
      {.dy = in.dy, .qkv = in.qkv, .y = once.forward.y, .softmax = once.forward.softmax}, packing,
      {.num_heads = 2}, &relative);
  EXPECT_LE(test::relative_error(content, once.d_content_bias + 1.0), 1e-6);
  EXPECT_LE(test::relative_error(position, once.d_position_bias + 2.0), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionRelative,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& type) { return std::string(c10::toString(type.param)); });

// One product more in forward, three in backward; the table of positions and its gradient.
TEST(AttentionRelativeCost, IsThatOfTheTermOfPositions) {
  const Packing packing({5, 7}, at::kCPU);
  const Options options{.num_heads = 4, .right = 0};
  const Inputs in = inputs_for(packing, 32);
  const auto costs = [&](bool with_positions) {
    const CostRecorder recorder;
    if (with_positions) {
      run(in, packing, options);
    } else {
      const Attention::Result result = Attention::forward(in.qkv, packing, options);
      Attention::backward({.dy = in.dy, .qkv = in.qkv, .y = result.y, .softmax = result.softmax},
                          packing, options);
    }
    return recorder.by_kernel();
  };
  const auto with = costs(true), without = costs(false);
  const auto difference = [&](const std::string& name, double Cost::* part) {
    return with.at(name).total.*part - without.at(name).total.*part;
  };
  const double product = 2.0 * 32 * (15 + 28);
  const auto table = static_cast<double>(in.positions.nbytes());
  EXPECT_EQ(difference("attention.forward", &Cost::flops), product);
  EXPECT_EQ(difference("attention.forward", &Cost::bytes), table);
  EXPECT_EQ(difference("attention.backward", &Cost::flops), 3.0 * product);
  EXPECT_EQ(difference("attention.backward", &Cost::bytes), 2.0 * table);
}

// No tensor is quadratic in the length of an utterance, on either device.
TEST(AttentionRelativeMemory, GrowsWithTheFrames) {
  const auto peak_bytes = [](const device::Target& card, int64_t length) {
    const device::TargetScope target(card);
    const auto arena =
        std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
    const device::ArenaGuard guard(at::kMeta, arena);
    const Packing packing({length}, at::kMeta);
    const auto options = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
    const auto as_float = options.dtype(at::kFloat);
    run({.qkv = at::empty({length, 3 * 64}, options),
         .dy = at::empty({length, 64}, options),
         .positions = at::empty({2 * length - 1, 64}, options),
         .content_bias = at::empty({64}, as_float),
         .position_bias = at::empty({64}, as_float)},
        packing, {.num_heads = 1});
    return static_cast<double>(arena->report().peak);
  };
  for (const device::Target& card :
       {device::Target{}, {.processor = device::Processor::kCuda, .capability = 90}}) {
    EXPECT_LE(peak_bytes(card, 8'000), 2.001 * peak_bytes(card, 4'000));
  }
}

// No library knows relative positions: the saved softmax has the shape of our own kernel.
TEST(AttentionRelativeOnGpu, UsesOurKernel) {
  const device::TargetScope target({.processor = device::Processor::kCuda, .capability = 90});
  const Packing packing({50, 33}, at::kMeta);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto options = at::TensorOptions().device(at::kMeta).dtype(type);
    const at::Tensor bias = at::empty({32}, options.dtype(at::kFloat));
    const Outputs out = run({.qkv = at::empty({83, 3 * 32}, options),
                             .dy = at::empty({83, 32}, options),
                             .positions = at::empty({99, 32}, options),
                             .content_bias = bias,
                             .position_bias = bias},
                            packing, {.num_heads = 2});
    EXPECT_EQ(out.forward.softmax.sizes(), at::IntArrayRef({2, 83}));
    EXPECT_EQ(out.dqkv.sizes(), at::IntArrayRef({83, 96}));
    EXPECT_EQ(out.d_positions.sizes(), at::IntArrayRef({99, 32}));
  }
}

TEST(AttentionRelativeShape, MustMatchThePack) {
  const Packing packing({3, 4}, at::kCPU);
  const Inputs good = inputs_for(packing, 12);
  EXPECT_NO_THROW(run(good, packing, {.num_heads = 2}));
  const auto refuse = [&](at::Tensor Inputs::* which, const at::Tensor& bad) {
    Inputs in = good;
    in.*which = bad;
    EXPECT_THROW(run(in, packing, {.num_heads = 2}), InternalError);
  };
  refuse(&Inputs::positions, good.positions.narrow(0, 1, 5));  // too short
  refuse(&Inputs::positions, good.positions.narrow(0, 0, 6));  // even
  refuse(&Inputs::positions, good.positions.narrow(1, 0, 6).contiguous());
  refuse(&Inputs::positions, good.positions.to(at::kBFloat16));
  refuse(&Inputs::content_bias, good.content_bias.narrow(0, 0, 6));
  refuse(&Inputs::position_bias, good.position_bias.to(at::kDouble));
  EXPECT_THROW(run(good, packing, {.num_heads = 2, .variant = Attention::Variant::kPlain}),
               InternalError);
}

}  // namespace attention_relative_test
}  // namespace sotto::kernels
