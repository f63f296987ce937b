// What the table cannot say: extreme inputs, and what a kernel refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sotto/core/error.h"
#include "sotto/kernels/elementwise/activation.h"
#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/kernels/elementwise/embedding.h"
#include "sotto/kernels/elementwise/glu.h"
#include "sotto/kernels/norm/group_norm.h"
#include "sotto/kernels/norm/layer_norm.h"
#include "sotto/kernels/product/gemm.h"
#include "sotto/kernels/simd/dropout_bits.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace kernel_special_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Gelu, StaysAccurateFarFromZero) {
  const at::Tensor x = at::linspace(-12, 12, 4'801);
  // By erfc: ATen's own formula, 1 + erf, has no digits left at -8 even in double.
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor truth = 0.5 * wide * at::erfc(-wide / std::sqrt(2.0));
  const at::Tensor ours = Gelu::forward(x).to(at::kDouble);
  // Relative to each value, not to the largest: the tails count too, down to where fp32 ends.
  const at::Tensor error = (ours - truth).abs() / at::clamp_min(truth.abs(), 1e-30);
  const at::Tensor in_range = x.abs() <= 8.0;
  EXPECT_LT(error.masked_select(in_range).max().item<double>(), 1e-5);
  EXPECT_LT((ours - truth).abs().max().item<double>(), 1e-6);
}

TEST(Activations, PropagateNanAndInfinity) {
  const at::Tensor x = at::tensor({kNan, kInfinity, -kInfinity, 200.0f, -200.0f});
  for (const at::Tensor& y : {Gelu::forward(x), Relu::forward(x), Silu::forward(x)}) {
    EXPECT_TRUE(std::isnan(y[0].item<float>()));
    EXPECT_EQ(y[1].item<float>(), kInfinity);
    EXPECT_EQ(y[3].item<float>(), 200.0f);
    EXPECT_EQ(y[4].item<float>(), 0.0f);
  }
}

TEST(LayerNorm, ConstantRowsGiveBetaAndNoNan) {
  const at::Tensor x = at::full({3, 20}, 1e3);
  const at::Tensor gamma = at::ones({20});
  const at::Tensor beta = at::full({20}, 0.25);
  const LayerNorm::Result result = LayerNorm::forward(x, {.gamma = gamma, .beta = beta});
  EXPECT_TRUE(at::equal(result.y, at::full({3, 20}, 0.25)));
}

// As in the first layer of wav2vec2: one channel per group, statistics over whole, long utterances.
TEST(GroupNorm, OneChannelPerGroupOverLongUtterances) {
  const Packing packing({20'000, 7, 900}, at::kCPU);
  const at::Tensor x = at::randn({packing.num_frames(), 5}) * 2.0 + 30.0;
  const at::Tensor gamma = at::rand({5});
  const at::Tensor beta = at::rand({5});
  const GroupNorm::Result result =
      GroupNorm::forward(x, packing, {.gamma = gamma, .beta = beta, .num_groups = 5});
  for (size_t u = 0; u < 3; ++u) {
    const auto rows = [&](const at::Tensor& all) {
      return all.narrow(0, packing.starts()[u], packing.lengths()[u]).to(at::kDouble);
    };
    const at::Tensor truth = at::group_norm(rows(x).t().unsqueeze(0), 5, gamma.to(at::kDouble),
                                            beta.to(at::kDouble), 1e-5);
    EXPECT_LT(test::relative_error(rows(result.y), truth.squeeze(0).t()), 2e-6)
        << "utterance " << u;
  }
}

// Groups wider than the chunk of a core, and groups that are not a multiple of it.
TEST(GroupNorm, AgreesWithDoublePrecisionForWideGroups) {
  const Packing packing({70, 13}, at::kCPU);
  for (const int64_t groups : {1, 2, 31, 310}) {
    const at::Tensor x = at::randn({83, 310}) * 2.0 + 30.0;
    const at::Tensor gamma = at::rand({310});
    const at::Tensor beta = at::rand({310});
    const GroupNorm::Result result =
        GroupNorm::forward(x, packing, {.gamma = gamma, .beta = beta, .num_groups = groups});
    const at::Tensor first = x.narrow(0, 0, 70).to(at::kDouble).t().unsqueeze(0);
    const at::Tensor truth =
        at::group_norm(first, groups, gamma.to(at::kDouble), beta.to(at::kDouble), 1e-5);
    EXPECT_LT(test::relative_error(result.y.narrow(0, 0, 70), truth.squeeze(0).t()), 2e-6)
        << groups << " groups";
  }
}

TEST(Dropout, PreservesTheMeanAndItsRate) {
  at::Tensor x = at::ones({400, 250});
  const Packing packing({100, 300}, at::kCPU);
  Dropout::apply(x, packing,
                 {.key = {.seed = 3, .purpose = Purpose::kDropout}, .probability = 0.1});
  EXPECT_NEAR(x.mean().item<float>(), 1.0, 0.005);
  EXPECT_NEAR((x == 0).to(at::kFloat).mean().item<float>(), 0.1, 0.005);
}

// The basis of "the budget changes speed, never the result": the mask depends on the utterance, not
// on its position.
TEST(Dropout, MaskDoesNotDependOnThePack) {
  const Dropout::Mask mask{.key = {.seed = 3, .purpose = Purpose::kDropout}, .probability = 0.5};
  at::Tensor together = at::ones({30, 13});
  Dropout::apply(together, Packing({10, 20}, at::kCPU, {{.utterance = 41}, {.utterance = 77}}),
                 mask);
  at::Tensor alone = at::ones({20, 13});
  Dropout::apply(alone, Packing({20}, at::kCPU, {{.utterance = 77}}), mask);
  EXPECT_TRUE(at::equal(together.narrow(0, 10, 20), alone));
  EXPECT_FALSE(at::equal(together.narrow(0, 0, 10), together.narrow(0, 10, 10)));
}

// Many blocks at once equal the single blocks, also when a block number exceeds 32 bits.
TEST(Dropout, BatchedBitsMatchSingleBlocks) {
  constexpr uint64_t kUtterance = 0x0123456789abcdef;
  const PhiloxKey key = {0xdeadbeef, 0x12345678};
  for (const uint64_t first : {uint64_t{0}, uint64_t{37}, (uint64_t{1} << 32) - 3}) {
    uint16_t bits[detail::kDropoutElementsAtOnce];
    detail::fill_dropout_bits(first, kUtterance, key, bits);
    for (int64_t i = 0; i < detail::kDropoutElementsAtOnce; ++i) {
      const uint64_t block = first + static_cast<uint64_t>(i / kDropoutBlock);
      const PhiloxCounter one = dropout_bits(block, kUtterance, key);
      const uint32_t drawn = bits[i];
      EXPECT_TRUE(dropout_keeps(one, i % kDropoutBlock, drawn));
      EXPECT_FALSE(dropout_keeps(one, i % kDropoutBlock, drawn + 1));
    }
  }
}

TEST(Dropout, ZeroRateChangesNothing) {
  at::Tensor x = at::ones({4, 4});
  Dropout::apply(x, Packing({4}, at::kCPU), {.key = {}, .probability = 0.0});
  EXPECT_TRUE(at::equal(x, at::ones({4, 4})));
}

TEST(Gemm, Fp32ResultOf16BitInputsIsNotRounded) {
  // 4,096 products of 1 and one of 2^-9: bf16 would lose the small one, fp32 keeps it.
  at::Tensor a = at::ones({1, 4'097}, at::kBFloat16);
  at::Tensor b = at::ones({4'097, 1}, at::kBFloat16);
  a[0][4'096] = 0x1p-9;
  EXPECT_EQ(Gemm::multiply_to_float({.a = a, .b = b}).item<float>(), 4'096.0f + 0x1p-9f);
}

TEST(Kernels, RefuseMismatchedShapes) {
  const at::Tensor x = at::ones({3, 4});
  at::Tensor odd = at::ones({3, 5});
  EXPECT_THROW(Gemm::multiply({.a = x, .b = odd}), InternalError);
  EXPECT_THROW(Gelu::backward(odd, x), InternalError);
  EXPECT_THROW(Glu::forward(odd), InternalError);
  EXPECT_THROW(Gelu::forward(x.t()), InternalError);
  EXPECT_THROW(LayerNorm::forward(x, {.gamma = at::ones({5}), .beta = at::ones({4})}),
               InternalError);
  EXPECT_THROW(Embedding::forward(at::tensor({7}, at::kInt), x), InternalError);
}

TEST(Packing, IsIndexedByUtterance) {
  const Packing packing({3, 1, 5}, at::kCPU);
  EXPECT_EQ(packing.num_frames(), 9);
  EXPECT_EQ(packing.max_length(), 5);
  EXPECT_EQ(packing.utterance_of(0), 0);
  EXPECT_EQ(packing.utterance_of(3), 1);
  EXPECT_EQ(packing.utterance_of(8), 2);
  EXPECT_TRUE(at::equal(packing.device_starts(), at::tensor({0, 3, 4, 9}, at::kInt)));
  EXPECT_THROW(Packing({3, 0}, at::kCPU), InternalError);
  EXPECT_THROW(Packing({}, at::kCPU), InternalError);
}

}  // namespace kernel_special_test
}  // namespace sotto::kernels
