// What the table cannot say of AdamW and SquareSum: ranges of any size, values that are not finite,
// and what they refuse.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sotto/core/error.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/adamw.h"
#include "sotto/kernels/square_sum.h"

namespace sotto::kernels {
namespace {

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

TEST(AdamW, TheFirstStepIsTheRateAgainstTheSignOfTheGradient) {
  Parameters p(100);
  const at::Tensor before = p.weights.clone();
  AdamW::update(p.range(), {.rate = 0.25, .epsilon = 0.0, .weight_decay = 0.0});
  EXPECT_TRUE(at::allclose(p.weights, before - 0.25 * p.gradients.sign(), 0.0, 1e-6));
}

TEST(AdamW, DecayAloneShrinksTheWeights) {
  Parameters p(37);
  p.gradients.zero_();
  const at::Tensor before = p.weights.clone();
  AdamW::update(p.range(), {.rate = 0.5, .weight_decay = 0.25});
  EXPECT_TRUE(at::equal(p.weights, before * 0.875));
}

TEST(AdamW, TheScaleIsThatOfTheGradient) {
  for (const double scale : {0.5, 0.0, -2.0}) {
    Parameters p(50);
    Parameters q = p;
    q.weights = p.weights.clone();
    q.first = p.first.clone();
    q.second = p.second.clone();
    q.gradients = p.gradients * scale;
    AdamW::update(p.range(), {.gradient_scale = scale});
    AdamW::update(q.range(), {});
    EXPECT_TRUE(at::equal(p.weights, q.weights)) << scale;
    EXPECT_TRUE(at::equal(p.second, q.second)) << scale;
  }
}

// A range is a view of a store: what lies around it must stay as it is.
TEST(AdamW, ChangesItsRangeAlone) {
  for (const int64_t size : {0, 1, 15, 16, 17, 1023, 1024, 1025}) {
    Parameters all(size + 6);
    const at::Tensor before = all.weights.clone();
    Parameters part = all;
    for (at::Tensor* tensor : {&part.weights, &part.gradients, &part.first, &part.second}) {
      *tensor = tensor->narrow(0, 3, size);
    }
    AdamW::update(part.range(), {});
    for (const int64_t begin : {int64_t{0}, size + 3}) {
      EXPECT_TRUE(at::equal(all.weights.narrow(0, begin, 3), before.narrow(0, begin, 3))) << size;
      EXPECT_TRUE(at::equal(all.first.narrow(0, begin, 3), at::zeros({3}))) << size;
    }
    EXPECT_FALSE((part.weights == before.narrow(0, 3, size)).any().item<bool>()) << size;
  }
}

TEST(AdamW, AValueThatIsNotFiniteStaysWithItsWeight) {
  Parameters p(40);
  p.gradients[7] = kNan;
  p.gradients[20] = kInfinity;
  AdamW::update(p.range(), {});
  const at::Tensor is_finite = at::isfinite(p.weights);
  EXPECT_FALSE(is_finite[7].item<bool>());
  EXPECT_FALSE(is_finite[20].item<bool>());
  EXPECT_EQ(is_finite.sum().item<int64_t>(), 38);
}

TEST(AdamW, AllocatesNothing) {
  Parameters p(5'000);
  const auto arena = std::make_shared<device::Arena>(device::RegionKind::kHost, 1 << 20);
  const device::ArenaGuard guard(at::kCPU, arena);
  AdamW::update(p.range(), {});
  EXPECT_EQ(arena->report().num_reservations, 0);
}

TEST(AdamW, RefusesWhatIsNoRange) {
  Parameters p(8);
  EXPECT_THROW(AdamW::update(p.range(), {.step = 0}), InternalError);
  EXPECT_THROW(AdamW::update(p.range(), {.beta1 = 1.0}), InternalError);
  EXPECT_THROW(AdamW::update(p.range(), {.beta2 = -0.1}), InternalError);
  EXPECT_THROW(AdamW::update(p.range(), {.rate = -1.0}), InternalError);
  EXPECT_THROW(AdamW::update(p.range(), {.rate = std::nan("")}), InternalError);
  Parameters other = p;
  other.gradients = at::zeros({9});
  EXPECT_THROW(AdamW::update(other.range(), {}), InternalError);
  other.gradients = at::zeros({8}, at::kBFloat16);
  EXPECT_THROW(AdamW::update(other.range(), {}), InternalError);
  other = p;
  other.first = at::zeros({2, 4});
  EXPECT_THROW(AdamW::update(other.range(), {}), InternalError);
  other = p;
  other.second = at::zeros({16}).slice(0, 0, 16, 2);
  EXPECT_THROW(AdamW::update(other.range(), {}), InternalError);
}

TEST(SquareSum, IsExactToTheLastDigitsOfDouble) {
  for (const int64_t size : {0, 1, 15, 16, 17, 33, 16'384, 32'768, 100'001}) {
    const at::Tensor values = at::randn({size});
    const double truth = values.to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(SquareSum::of(values), truth, 1e-13 * truth) << size;
  }
}

TEST(SquareSum, DoesNotDependOnTheNumberOfCores) {
  const at::Tensor values = at::randn({1'234'567});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const double on_one = SquareSum::of(values);
  at::set_num_threads(3);
  const double on_three = SquareSum::of(values);
  at::set_num_threads(before);
  EXPECT_EQ(on_one, on_three);
}

// Squares that fp32 cannot hold.
TEST(SquareSum, NeitherOverflowsNorVanishes) {
  EXPECT_DOUBLE_EQ(SquareSum::of(at::full({4}, 0x1p100)), 0x1p202);
  EXPECT_DOUBLE_EQ(SquareSum::of(at::full({4}, 0x1p-100)), 0x1p-198);
}

TEST(SquareSum, PassesNanAndInfinityOn) {
  for (const int64_t place : {0, 5, 99'999}) {
    at::Tensor values = at::ones({100'000});
    values[place] = -kInfinity;
    EXPECT_EQ(SquareSum::of(values), std::numeric_limits<double>::infinity());
    values[50'000] = kNan;
    EXPECT_TRUE(std::isnan(SquareSum::of(values)));
  }
}

TEST(SquareSum, HasAFixedWorkspaceAtMost) {
  const auto arena =
      std::make_shared<device::Arena>(device::RegionKind::kNothing, device::Arena::kUnlimited);
  const device::ArenaGuard guard(at::kMeta, arena);
  {
    const at::Tensor values = at::empty({int64_t{1} << 33}, at::device(at::kMeta));
    EXPECT_EQ(SquareSum::of(values), 0.0) << "a dry run";
  }
  const auto workspace = static_cast<size_t>(device::Category::kWorkspace);
  EXPECT_EQ(arena->report().at_peak[workspace], 8192);
}

TEST(SquareSum, RefusesWhatIsNoRange) {
  EXPECT_THROW(SquareSum::of(at::zeros({2, 4})), InternalError);
  EXPECT_THROW(SquareSum::of(at::zeros({4}, at::kDouble)), InternalError);
  EXPECT_THROW(SquareSum::of(at::zeros({8}).slice(0, 0, 8, 2)), InternalError);
}

}  // namespace
}  // namespace sotto::kernels
