// AdamW on a GPU in all of its forms: the CPU's bits.
#include <gtest/gtest.h>

#include <limits>

#include "support/adamw_forms.h"
#include "support/gpu.h"

namespace sotto::test {
namespace {

using kernels::AdamW;

AdamW::Coefficients at_step(int64_t step) {
  return {
      .rate = 1e-3,
      .step = step,
      .clip_norm = 3.0,
      .rounding = {.seed = 5, .purpose = Purpose::kRounding, .step = static_cast<uint64_t>(step)}};
}

class CudaAdamW : public ::testing::TestWithParam<AdamWForm> {};

// The square sum is handed over: each device takes it in another order. Sizes that end inside of a
// vector and of a block, one that fills a grid more than once, and a range that begins between
// aligned addresses.
TEST_P(CudaAdamW, MatchesTheCpuBitExactly) {
  SOTTO_SKIP_WITHOUT_GPU();
  for (const int64_t size : {1, 7, 8, 255, 256, 257, 2'000, 100'003, 10'000'000}) {
    at::manual_seed(3);
    AdamWRange on_cpu(GetParam(), size);
    on_cpu.weights.copy_(at::randn({size}));
    AdamWRange on_gpu = on_cpu.to(at::kCUDA);
    for (int64_t step = 1; step <= 3; ++step) {
      on_cpu.gradients.copy_(at::randn({size}) * at::exp(2 * at::randn({size})));
      on_gpu.gradients.copy_(on_cpu.gradients);
      const at::Tensor sum = on_cpu.square_sum();
      on_cpu.update(at_step(step), sum);
      on_gpu.update(at_step(step), sum.cuda());
      ASSERT_TRUE(is_same(on_cpu, on_gpu)) << size << " values, step " << step;
    }
  }
}

// From numbers whose squares vanish to such whose squares are too large, zeros between them: roots,
// inverses and shares are the CPU's there too.
TEST_P(CudaAdamW, MatchesTheCpuAtAnyMagnitude) {
  SOTTO_SKIP_WITHOUT_GPU();
  constexpr int64_t kSize = 1'000'000;
  at::manual_seed(4);
  AdamWRange on_cpu(GetParam(), kSize);
  on_cpu.weights.copy_(at::randn({kSize}));
  AdamWRange on_gpu = on_cpu.to(at::kCUDA);
  for (int64_t step = 1; step <= 3; ++step) {
    const at::Tensor magnitude = at::exp(at::empty({kSize}).uniform_(-80.0, 46.0));
    on_cpu.gradients.copy_(at::randn({kSize}) * magnitude * (at::rand({kSize}) < 0.9));
    on_gpu.gradients.copy_(on_cpu.gradients);
    AdamW::Coefficients unclipped = at_step(step);
    unclipped.clip_norm = 0.0;
    const at::Tensor sum = on_cpu.square_sum();
    on_cpu.update(unclipped, sum);
    on_gpu.update(unclipped, sum.cuda());
    ASSERT_TRUE(is_same(on_cpu, on_gpu)) << "step " << step;
  }
}

TEST_P(CudaAdamW, DoesNotDependOnHowARangeIsSplit) {
  SOTTO_SKIP_WITHOUT_GPU();
  AdamWRange whole(GetParam(), 5'000);
  whole.weights.copy_(at::randn({5'000}));
  whole.gradients.copy_(at::randn({5'000}));
  whole = whole.to(at::kCUDA);
  AdamWRange pieces = whole.clone();
  const at::Tensor sum = whole.square_sum();
  whole.update(at_step(1), sum);
  for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 256}, {256, 768}, {1024, 3976}})
    pieces.piece(begin, count).update(at_step(1), sum);
  EXPECT_TRUE(is_same(pieces, whole));
}

TEST_P(CudaAdamW, ChangesNothingIfTheNormIsNotFinite) {
  SOTTO_SKIP_WITHOUT_GPU();
  AdamWRange range = AdamWRange(GetParam(), 700).to(at::kCUDA);
  range.weights.copy_(at::randn({700}));
  const AdamWRange before = range.clone();
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    range.update(at_step(1), at::full({1}, bad, range.weights.options().dtype(at::kDouble)));
    EXPECT_TRUE(is_same(range, before));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaAdamW, ::testing::ValuesIn(all_adamw_forms()),
                         [](const auto& form) { return form.param.name(); });

TEST(CudaSquareSum, MatchesTheCpuForBf16) {
  SOTTO_SKIP_WITHOUT_GPU();
  for (const int64_t size : {1, 17, 100'001}) {
    AdamWRange range({.gradients = at::kBFloat16}, size);
    range.gradients.copy_(at::randn({size}));
    const double on_cpu = range.square_sum().item<double>();
    EXPECT_NEAR(range.to(at::kCUDA).square_sum().item<double>(), on_cpu, 1e-12 * on_cpu);
  }
}

}  // namespace
}  // namespace sotto::test
