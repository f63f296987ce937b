// Times of tokens by dynamic time warping, against all paths of small matrices.
#include "sotto/decode/time_warping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>

#include "sotto/core/rng.h"

namespace sotto::decode::time_warping_test {
namespace {

// The least sum over all paths, by recursion.
double least_of_all(const std::vector<double>& costs, int64_t num_columns) {
  const int64_t num_rows = std::ssize(costs) / num_columns;
  const std::function<double(int64_t, int64_t)> least_from = [&](int64_t row, int64_t column) {
    const double cost = costs[static_cast<size_t>(row * num_columns + column)];
    const bool is_last_row = row + 1 == num_rows, is_last_column = column + 1 == num_columns;
    if (is_last_row && is_last_column) return cost;
    double least = std::numeric_limits<double>::infinity();
    if (!is_last_row) least = std::min(least, least_from(row + 1, column));
    if (!is_last_column) least = std::min(least, least_from(row, column + 1));
    if (!is_last_row && !is_last_column) least = std::min(least, least_from(row + 1, column + 1));
    return cost + least;
  };
  return least_from(0, 0);
}

TEST(TimeWarping, FindsTheCheapestOfAllPaths) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const RandomStream stream({.seed = seed}, {});
    const auto num_rows = static_cast<int64_t>(1 + seed % 6);
    const auto num_columns = static_cast<int64_t>(1 + (seed / 2) % 6);
    std::vector<double> costs;
    for (int64_t i = 0; i < num_rows * num_columns; ++i)
      costs.push_back(double{stream.normal(static_cast<uint64_t>(i))});
    const WarpPath path = cheapest_path(costs, num_columns);
    double sum = 0.0;
    for (size_t i = 0; i < path.rows.size(); ++i) {
      sum += costs[static_cast<size_t>(path.rows[i] * num_columns + path.columns[i])];
      if (i == 0) continue;
      const int64_t down = path.rows[i] - path.rows[i - 1];
      const int64_t right = path.columns[i] - path.columns[i - 1];
      EXPECT_TRUE(down >= 0 && down <= 1 && right >= 0 && right <= 1 && down + right > 0);
    }
    EXPECT_EQ(path.rows.front() + path.columns.front(), 0);
    EXPECT_EQ(path.rows.back(), num_rows - 1);
    EXPECT_EQ(path.columns.back(), num_columns - 1);
    EXPECT_NEAR(sum, least_of_all(costs, num_columns), 1e-5) << seed;
  }
}

TEST(TimeWarping, FiltersByTheMedianWithMirroredEnds) {
  const std::vector<float> row = {9, 1, 2, 8, 3, 4, 7};
  EXPECT_EQ(median_filtered(row, 1), row);
  // 1 9 1, 9 1 2, 1 2 8, 2 8 3, 8 3 4, 3 4 7, 4 7 4
  EXPECT_EQ(median_filtered(row, 3), (std::vector<float>{1, 2, 2, 3, 4, 4, 4}));
  EXPECT_EQ(median_filtered(std::vector<float>{5, 6, 1}, 7), (std::vector<float>{5, 6, 1}));
}

// Two heads look at the token's frames, three frames each; a third looks anywhere.
TEST(TimeWarping, GivesEachTokenItsFirstFrame) {
  constexpr int64_t kTokens = 5, kFrames = 40, kHeads = 3;
  const RandomStream stream({.seed = 4}, {});
  const std::vector<int64_t> begins = {0, 9, 14, 22, 33};
  std::vector<float> weights;
  for (int64_t head = 0; head < kHeads; ++head) {
    for (int64_t token = 0; token < kTokens; ++token) {
      const auto t = static_cast<size_t>(token);
      const int64_t end = token + 1 < kTokens ? begins[t + 1] : kFrames;
      for (int64_t frame = 0; frame < kFrames; ++frame) {
        const bool is_own = frame >= begins[t] && frame < end;
        weights.push_back((is_own && head < 2 ? 1.0f : 0.0f) +
                          0.2f * stream.uniform(weights.size()));
      }
    }
  }
  const HeadWeights heads{.values = weights, .num_heads = kHeads, .num_frames = kFrames};
  const std::vector<int64_t> frames = warped_frames(heads);
  ASSERT_EQ(frames.size(), begins.size());
  // The median of seven frames blurs the edges.
  for (size_t t = 0; t < begins.size(); ++t)
    EXPECT_LE(std::abs(frames[t] - begins[t]), 1) << "token " << t;
  EXPECT_TRUE(warped_frames({.num_heads = 1, .num_frames = 3}).empty());
}

TEST(TimeWarping, OfATokenThatIsAloneBeginsAtTheFirstFrame) {
  const std::vector<float> weights = {0.1f, 0.2f, 0.7f};
  EXPECT_EQ(warped_frames({.values = weights, .num_heads = 1, .num_frames = 3}),
            std::vector<int64_t>{0});
}

}  // namespace
}  // namespace sotto::decode::time_warping_test
