// Batch normalisation where the kernel table has no case: running averages against ATen's, steps of
// several batches, means far from zero, and a single row.
#include "sotto/kernels/norm/batch_norm.h"

#include <gtest/gtest.h>

#include <limits>

#include "sotto/core/error.h"
#include "support/kernel_case_tools.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace batch_norm_test {

using test::kernel_tolerance;
using test::random_values;
using test::relative_error;

// Statistics are combined in double: little but their own rounding is left.
constexpr double kStatisticsTolerance = 1e-6;

// An empty stage, with values that must not matter.
BatchNorm::Stage empty_stage(int64_t width) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  return {.mean = at::full({width}, kNan), .variance = at::full({width}, kNan)};
}

// Several steps of one batch each, of different sizes, as ATen's batch norm has them in training.
TEST(BatchNorm, RunningStatisticsAreThoseOfAten) {
  const int64_t width = 21;
  at::Tensor mean = at::zeros({width}), variance = at::ones({width});
  at::Tensor true_mean = mean.to(at::kDouble), true_variance = variance.to(at::kDouble);
  const at::Tensor gamma = at::ones({width}), beta = at::zeros({width});
  uint64_t seed = 1;
  for (const int64_t rows : {5, 2, 300, 64}) {
    const at::Tensor x = (random_values({rows, width}, ++seed) * 3.0 + 2.0).to(at::kFloat);
    BatchNorm::Stage stage = empty_stage(width);
    const BatchNorm::Statistics statistics = BatchNorm::statistics(x, &stage);
    BatchNorm::commit(stage, {.mean = mean, .variance = variance});
    const at::Tensor wide = x.to(at::kDouble);
    const at::Tensor truth =
        at::batch_norm(wide, gamma.to(at::kDouble), beta.to(at::kDouble), true_mean, true_variance,
                       /*training=*/true, /*momentum=*/0.1, /*eps=*/1e-5, false);
    EXPECT_LE(
        relative_error(BatchNorm::forward(x, statistics, {.gamma = gamma, .beta = beta}), truth),
        kernel_tolerance(at::kFloat))
        << rows << " rows";
    EXPECT_LE(relative_error(statistics.mean, wide.mean(0)), kStatisticsTolerance);
    EXPECT_LE(relative_error(statistics.variance, wide.var(0, /*unbiased=*/false)),
              kStatisticsTolerance);
  }
  EXPECT_LE(relative_error(mean, true_mean), kStatisticsTolerance);
  EXPECT_LE(relative_error(variance, true_variance), kStatisticsTolerance);
  // Evaluation uses them as constants.
  const at::Tensor x = random_values({9, width}, 77).to(at::kFloat);
  const at::Tensor y =
      BatchNorm::forward(x, {.mean = mean, .variance = variance}, {.gamma = gamma, .beta = beta});
  const at::Tensor truth =
      at::batch_norm(x.to(at::kDouble), gamma.to(at::kDouble), beta.to(at::kDouble), true_mean,
                     true_variance, /*training=*/false, 0.1, 1e-5, false);
  EXPECT_LE(relative_error(y, truth), kernel_tolerance(at::kFloat));
}

// The averages move once, by the statistics of all rows, however these are split; means of the
// batches are far apart.
TEST(BatchNorm, SplitStepsMoveTheAveragesLikeWholeOnes) {
  const int64_t width = 21;
  const at::Tensor x =
      (random_values({400, width}, 5) * 2.0 + 3.0 * at::arange(400).view({-1, 1})).to(at::kFloat);
  const at::Tensor wide = x.to(at::kDouble);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{400}, {1, 399}, {130, 1, 200, 69}, std::vector<int64_t>(400, 1)}) {
    at::Tensor mean = at::full({width}, 2.0), variance = at::full({width}, 3.0);
    BatchNorm::Stage stage = empty_stage(width);
    for (const at::Tensor& batch : x.split_with_sizes(sizes))
      BatchNorm::statistics(batch.contiguous(), &stage);
    EXPECT_TRUE(at::equal(mean, at::full({width}, 2.0))) << "before the step is complete";
    BatchNorm::commit(stage, {.mean = mean, .variance = variance});
    EXPECT_LE(relative_error(mean, 1.8 + 0.1 * wide.mean(0)), kStatisticsTolerance)
        << sizes.size() << " batches";
    EXPECT_LE(relative_error(variance, 2.7 + 0.1 * wide.var(0, /*unbiased=*/true)),
              kStatisticsTolerance)
        << sizes.size() << " batches";
  }
}

// The one-pass formula would have no digit of the variance left.
TEST(BatchNorm, LargeMeansLoseNoDigitsOfTheVariance) {
  for (const int64_t rows : {40, 5'000}) {
    const at::Tensor x = (random_values({rows, 19}, 3) + 4'000.0).to(at::kFloat);
    const BatchNorm::Statistics statistics = BatchNorm::statistics(x);
    const at::Tensor wide = x.to(at::kDouble);
    EXPECT_LE(relative_error(statistics.variance, wide.var(0, /*unbiased=*/false)),
              kStatisticsTolerance)
        << rows;
    EXPECT_LE(relative_error(statistics.mean, wide.mean(0)), kStatisticsTolerance) << rows;
  }
}

TEST(BatchNorm, ASingleRowHasNoVariance) {
  const at::Tensor x = random_values({1, 5}, 1).to(at::kFloat);
  at::Tensor mean = at::zeros({5}), variance = at::full({5}, 3.0);
  BatchNorm::Stage stage = empty_stage(5);
  const at::Tensor beta = at::full({5}, 0.25);
  const at::Tensor y = BatchNorm::forward(x, BatchNorm::statistics(x, &stage),
                                          {.gamma = at::ones({5}), .beta = beta});
  BatchNorm::commit(stage, {.mean = mean, .variance = variance});
  EXPECT_TRUE(at::equal(y[0], beta));
  EXPECT_LE(relative_error(mean, 0.1 * x[0]), kStatisticsTolerance);
  EXPECT_TRUE(at::equal(variance, at::full({5}, 3.0)));
}

TEST(BatchNorm, RefusesMismatchedShapes) {
  const at::Tensor x = at::zeros({6, 8}), wide = at::zeros({8}), narrow = at::zeros({7});
  EXPECT_THROW(
      BatchNorm::forward(x, {.mean = narrow, .variance = wide}, {.gamma = wide, .beta = wide}),
      InternalError);
  EXPECT_THROW(
      BatchNorm::forward(x, {.mean = wide, .variance = wide}, {.gamma = wide, .beta = narrow}),
      InternalError);
  BatchNorm::Stage stage{.mean = narrow, .variance = wide};
  EXPECT_THROW(BatchNorm::statistics(x, &stage), InternalError);
  at::Tensor mean = at::zeros({7}), variance = at::zeros({8});
  EXPECT_THROW(BatchNorm::commit({.mean = wide, .variance = wide, .rows = 6},
                                 {.mean = mean, .variance = variance}),
               InternalError);
  EXPECT_THROW(
      BatchNorm::commit({.mean = wide, .variance = wide}, {.mean = variance, .variance = variance}),
      InternalError)
      << "without rows";
}

}  // namespace batch_norm_test
}  // namespace sotto::kernels
