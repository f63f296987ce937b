// Batch normalisation where the kernel table has no case: running statistics against ATen's, means
// far from zero, and a single row.
#include "sotto/kernels/norm/batch_norm.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/kernel_case_tools.h"
#include "support/tolerance.h"

namespace sotto::kernels {
namespace {

using test::kernel_tolerance;
using test::random_values;
using test::relative_error;

// Statistics are combined in double: little but their own rounding is left.
constexpr double kStatisticsTolerance = 1e-6;

// Several batches of different sizes, as ATen's batch norm has them in training.
TEST(BatchNorm, RunningStatisticsAreThoseOfAten) {
  const int64_t width = 21;
  at::Tensor mean = at::zeros({width}), variance = at::ones({width});
  at::Tensor true_mean = mean.to(at::kDouble), true_variance = variance.to(at::kDouble);
  const at::Tensor gamma = at::ones({width}), beta = at::zeros({width});
  uint64_t seed = 1;
  for (const int64_t rows : {5, 2, 300, 64}) {
    const at::Tensor x = (random_values({rows, width}, ++seed) * 3.0 + 2.0).to(at::kFloat);
    const BatchNorm::Running running{.mean = mean, .variance = variance};
    const BatchNorm::Statistics statistics = BatchNorm::statistics(x, &running);
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
  const BatchNorm::Running running{.mean = mean, .variance = variance};
  const at::Tensor beta = at::full({5}, 0.25);
  const at::Tensor y = BatchNorm::forward(x, BatchNorm::statistics(x, &running),
                                          {.gamma = at::ones({5}), .beta = beta});
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
  at::Tensor running_mean = at::zeros({7}), running_variance = at::zeros({8});
  const BatchNorm::Running running{.mean = running_mean, .variance = running_variance};
  EXPECT_THROW(BatchNorm::statistics(x, &running), InternalError);
}

}  // namespace
}  // namespace sotto::kernels
