// What the table cannot say of AdamW, SquareSum and Cast: ranges of any size, clipping, values that
// are not finite, halves of numbers, and what they refuse.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/elementwise/cast.h"
#include "sotto/kernels/optimizer/adamw.h"
#include "sotto/kernels/optimizer/square_sum.h"
#include "sotto/kernels/simd/split_float.h"

namespace sotto::kernels {
namespace optimizer_kernel_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Parameters {
  explicit Parameters(int64_t size)
      : weights(at::randn({size})),
        gradients(at::randn({size})),
        first(at::zeros({size})),
        second(at::zeros({size})) {}

  AdamW::Range range() {
    return {
        .weights = weights, .gradients = gradients, .first_moment = first, .second_moment = second};
  }

  at::Tensor weights, gradients, first, second;
};

at::Tensor square_sum_of(const at::Tensor& values) {
  at::Tensor total = at::zeros({1}, at::kDouble);
  SquareSum::accumulate(total, values);
  return total;
}

double square_sum(const at::Tensor& values) {
  return square_sum_of(values).item<double>();
}

void update(Parameters& p, const AdamW::Coefficients& coefficients = {}) {
  AdamW::update(p.range(), coefficients, square_sum_of(p.gradients));
}

TEST(AdamW, FirstStepIsTheRateAgainstTheGradientSign) {
  Parameters p(100);
  const at::Tensor before = p.weights.clone();
  update(p, {.rate = 0.25, .epsilon = 0.0, .weight_decay = 0.0});
  EXPECT_TRUE(at::allclose(p.weights, before - 0.25 * p.gradients.sign(), 0.0, 1e-6));
}

TEST(AdamW, ZeroGradientOnlyDecaysWeights) {
  Parameters p(37);
  p.gradients.zero_();
  const at::Tensor before = p.weights.clone();
  update(p, {.rate = 0.5, .weight_decay = 0.25});
  EXPECT_TRUE(at::equal(p.weights, before * 0.875));
}

Parameters copy_of(const Parameters& p) {
  Parameters copy = p;
  for (at::Tensor* tensor : {&copy.weights, &copy.gradients, &copy.first, &copy.second})
    *tensor = tensor->clone();
  return copy;
}

void expect_equal(const Parameters& p, const Parameters& q) {
  EXPECT_TRUE(at::equal(p.weights, q.weights));
  EXPECT_TRUE(at::equal(p.first, q.first));
  EXPECT_TRUE(at::equal(p.second, q.second));
}

TEST(AdamW, ScalesTheGradient) {
  for (const double scale : {0.5, 0.0, 2.0}) {
    Parameters p(50);
    Parameters q = copy_of(p);
    q.gradients = p.gradients * scale;
    update(p, {.gradient_scale = scale});
    update(q);
    expect_equal(p, q);
  }
}

// A norm above the limit is reduced to it; the limit applies to the scaled gradients.
TEST(AdamW, ClipsScaledGradients) {
  Parameters p(4);
  p.gradients = at::tensor({3.0f, 0.0f, 4.0f, 0.0f});
  for (const double scale : {1.0, 0.5}) {
    for (const double limit : {100.0, 5.0 * scale, 2.5 * scale, 0.625 * scale}) {
      Parameters clipped = copy_of(p);
      Parameters smaller = copy_of(p);
      smaller.gradients = p.gradients * std::min(scale, limit / 5.0);
      update(clipped, {.gradient_scale = scale, .clip_norm = limit});
      update(smaller);
      expect_equal(clipped, smaller);
    }
  }
}

// The square sum covers all ranges of a step.
TEST(AdamW, ClipsByTheGivenSquareSum) {
  Parameters p(30);
  Parameters q = copy_of(p);
  q.gradients = p.gradients * 0.25;
  AdamW::update(p.range(), {.clip_norm = 2.0}, at::full({1}, 64.0, at::kDouble));
  update(q);
  expect_equal(p, q);
}

// A range is a view of a store: everything around it must stay unchanged.
TEST(AdamW, ChangesOnlyItsRange) {
  for (const int64_t size : {0, 1, 15, 16, 17, 1023, 1024, 1025}) {
    Parameters all(size + 6);
    const at::Tensor before = all.weights.clone();
    Parameters part = all;
    for (at::Tensor* tensor : {&part.weights, &part.gradients, &part.first, &part.second}) {
      *tensor = tensor->narrow(0, 3, size);
    }
    update(part);
    for (const int64_t begin : {int64_t{0}, size + 3}) {
      EXPECT_TRUE(at::equal(all.weights.narrow(0, begin, 3), before.narrow(0, begin, 3))) << size;
      EXPECT_TRUE(at::equal(all.first.narrow(0, begin, 3), at::zeros({3}))) << size;
    }
    EXPECT_FALSE((part.weights == before.narrow(0, 3, size)).any().item<bool>()) << size;
  }
}

TEST(AdamW, ChangesNothingIfTheNormIsNotFinite) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    Parameters p(40);
    update(p);
    p.gradients[7] = bad;
    const Parameters before = copy_of(p);
    update(p, {.clip_norm = 1.0});
    expect_equal(p, before);
  }
  // Finite as the gradients are, scaled they are not.
  Parameters p(40);
  const Parameters before = copy_of(p);
  update(p, {.gradient_scale = std::numeric_limits<double>::infinity()});
  expect_equal(p, before);
}

TEST(AdamW, RefusesInvalidRanges) {
  Parameters p(8);
  const at::Tensor sum = at::zeros({1}, at::kDouble);
  const auto expect_refused = [&](Parameters& range, const AdamW::Coefficients& coefficients) {
    EXPECT_THROW(AdamW::update(range.range(), coefficients, sum), InternalError);
  };
  expect_refused(p, {.step = 0});
  expect_refused(p, {.beta1 = 1.0});
  expect_refused(p, {.beta2 = -0.1});
  expect_refused(p, {.rate = -1.0});
  expect_refused(p, {.rate = std::nan("")});
  expect_refused(p, {.gradient_scale = -1.0});
  expect_refused(p, {.clip_norm = -1.0});
  Parameters other = p;
  other.gradients = at::zeros({9});
  expect_refused(other, {});
  other = p;
  other.first = at::zeros({2, 4});
  expect_refused(other, {});
  other = p;
  other.second = at::zeros({16}).slice(0, 0, 16, 2);
  expect_refused(other, {});
  other = p;
  other.weights = at::zeros({8}, at::kDouble);
  expect_refused(other, {});
  EXPECT_THROW(AdamW::update(p.range(), {}, at::zeros({1})), InternalError);
  EXPECT_THROW(AdamW::update(p.range(), {}, at::zeros({2}, at::kDouble)), InternalError);
}

TEST(SplitFloat, RoundTripsBitExactly) {
  const RandomStream stream({.seed = 1});
  for (uint64_t n = 0; n < 1'000'000; ++n) {
    const auto bits = static_cast<uint32_t>(stream.bits(n));
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(join_float(split_float(value))), bits);
  }
}

TEST(SplitFloat, HandlesEdgeCases) {
  using Limits = std::numeric_limits<float>;
  struct Edge {
    float value;
    uint16_t high;
    int16_t low;
  };
  for (const Edge& edge :
       {Edge{0.0f, 0x0000, 0}, Edge{-0.0f, 0x8000, 0}, Edge{1.0f, 0x3f80, 0},
        Edge{Limits::denorm_min(), 0x0000, 1}, Edge{-Limits::denorm_min(), 0x8000, 1},
        // A half goes up, away from 0, and the carry into the exponent.
        Edge{0x1.01p0f, 0x3f81, -0x8000}, Edge{-0x1.01p0f, 0xbf81, -0x8000},
        Edge{0x1.00fffep0f, 0x3f80, 0x7fff}, Edge{0x1.ffp0f, 0x4000, -0x8000},
        // The largest numbers look infinite in bf16 and are none.
        Edge{Limits::max(), 0x7f80, -1}, Edge{Limits::lowest(), 0xff80, -1},
        Edge{0x1.fefffep127f, 0x7f7f, 0x7fff}, Edge{kInfinity, 0x7f80, 0},
        Edge{-kInfinity, 0xff80, 0}}) {
    const SplitFloat split = split_float(edge.value);
    EXPECT_EQ(split.high, edge.high) << edge.value;
    EXPECT_EQ(split.low, edge.low) << edge.value;
    EXPECT_EQ(std::bit_cast<uint32_t>(join_float(split)), std::bit_cast<uint32_t>(edge.value));
  }
  // A NaN is one in bf16 too, whatever its bits.
  for (const uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const SplitFloat split = split_float(std::bit_cast<float>(bits));
    EXPECT_TRUE(
        std::isnan(static_cast<float>(at::BFloat16(split.high, at::BFloat16::from_bits()))));
    EXPECT_TRUE(std::isnan(join_float(split)));
  }
}

TEST(SquareSum, IsExactInDoublePrecision) {
  for (const int64_t size : {0, 1, 15, 16, 17, 33, 16'384, 32'768, 100'001}) {
    const at::Tensor values = at::randn({size});
    const double truth = values.to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(square_sum(values), truth, 1e-13 * truth) << size;
  }
}

TEST(SquareSum, OfBf16MatchesFp32) {
  for (const int64_t size : {1, 17, 33, 100'001}) {
    const at::Tensor values = at::randn({size}).to(at::kBFloat16);
    EXPECT_EQ(square_sum(values), square_sum(values.to(at::kFloat))) << size;
  }
}

TEST(SquareSum, AccumulatesIntoTheTotal) {
  at::Tensor total = at::full({1}, 5.0, at::kDouble);
  SquareSum::accumulate(total, at::full({3}, 2.0));
  SquareSum::accumulate(total, at::full({1}, -3.0));
  EXPECT_EQ(total.item<double>(), 26.0);
}

TEST(SquareSum, DoesNotDependOnTheNumberOfCores) {
  const at::Tensor values = at::randn({1'234'567});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const double on_one = square_sum(values);
  at::set_num_threads(3);
  const double on_three = square_sum(values);
  at::set_num_threads(before);
  EXPECT_EQ(on_one, on_three);
}

// Squares that fp32 cannot hold.
TEST(SquareSum, NeitherOverflowsNorUnderflows) {
  EXPECT_DOUBLE_EQ(square_sum(at::full({4}, 0x1p100)), 0x1p202);
  EXPECT_DOUBLE_EQ(square_sum(at::full({4}, 0x1p-100)), 0x1p-198);
}

TEST(SquareSum, PropagatesNanAndInfinity) {
  for (const int64_t index : {0, 5, 99'999}) {
    at::Tensor values = at::ones({100'000});
    values[index] = -kInfinity;
    EXPECT_EQ(square_sum(values), std::numeric_limits<double>::infinity());
    values[50'000] = kNan;
    EXPECT_TRUE(std::isnan(square_sum(values)));
  }
}

TEST(SquareSum, HasABoundedWorkspace) {
  const auto arena =
      std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
  const device::ArenaGuard guard(at::kMeta, arena);
  {
    const at::Tensor values = at::empty({int64_t{1} << 33}, at::device(at::kMeta));
    at::Tensor total = at::empty({1}, values.options().dtype(at::kDouble));
    SquareSum::accumulate(total, values);
  }
  const auto workspace = static_cast<size_t>(device::Category::kWorkspace);
  EXPECT_EQ(arena->report().at_peak[workspace], 8192);
}

TEST(SquareSum, RefusesInvalidRanges) {
  EXPECT_THROW(square_sum(at::zeros({2, 4})), InternalError);
  EXPECT_THROW(square_sum(at::zeros({4}, at::kDouble)), InternalError);
  EXPECT_THROW(square_sum(at::zeros({8}).slice(0, 0, 8, 2)), InternalError);
  at::Tensor single = at::zeros({1});
  EXPECT_THROW(SquareSum::accumulate(single, at::zeros({4})), InternalError);
}

TEST(Cast, RoundsLikeAten) {
  for (const at::ScalarType from : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const at::ScalarType to : {at::kFloat, at::kBFloat16, at::kHalf}) {
      if (from == to) continue;
      // Halves between two numbers, numbers too large and too small for fp16, infinities.
      at::Tensor x = at::cat({at::randn({1000}) * at::exp(10 * at::randn({1000})),
                              at::arange(-300, 300) / 512.0 + 1.0,
                              at::tensor({kInfinity, -kInfinity, 0.0f, -0.0f, 3e38f, 1e-45f})});
      x = x.to(from).view({2, -1});
      EXPECT_TRUE(at::equal(Cast::to(x, to), x.to(to))) << from << " to " << to;
      x[1][3] = kNan;
      EXPECT_TRUE(std::isnan(Cast::to(x, to)[1][3].item<float>()));
    }
  }
}

TEST(Cast, AddsInFp32AndRoundsOnce) {
  for (const int64_t size : {1, 17, 40'003}) {
    const at::Tensor x = at::randn({size}), before = at::randn({size}).to(at::kBFloat16);
    at::Tensor sum = before.clone();
    Cast::accumulate(sum, x);
    EXPECT_TRUE(at::equal(sum, (before.to(at::kFloat) + x).to(at::kBFloat16))) << size;
  }
  at::Tensor other = at::zeros({4}, at::kBFloat16);
  EXPECT_THROW(Cast::accumulate(other, at::zeros({5})), InternalError);
  EXPECT_THROW(Cast::accumulate(other, other), InternalError);
}

TEST(Cast, RefusesInvalidCasts) {
  EXPECT_THROW(Cast::to(at::zeros({4}), at::kFloat), InternalError);
  EXPECT_THROW(Cast::to(at::zeros({4}), at::kDouble), InternalError);
  EXPECT_THROW(Cast::to(at::zeros({4}, at::kInt), at::kHalf), InternalError);
  EXPECT_THROW(Cast::to(at::zeros({4, 4}).t(), at::kHalf), InternalError);
}

}  // namespace optimizer_kernel_test
}  // namespace sotto::kernels
