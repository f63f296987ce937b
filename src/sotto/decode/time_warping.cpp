#include "sotto/decode/time_warping.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sotto/core/error.h"

namespace sotto::decode {

namespace {

// The step that leads to a cell.
enum class Step : uint8_t { kBoth, kRow, kColumn };

// Subtracts the mean over the tokens from weights [L, M] of a head, and divides by their deviation.
std::vector<float> normalised(std::span<const float> weights, int64_t num_frames) {
  const int64_t num_tokens = std::ssize(weights) / num_frames;
  std::vector<float> result(weights.begin(), weights.end());
  for (int64_t frame = 0; frame < num_frames; ++frame) {
    double sum = 0.0, sum_of_squares = 0.0;
    for (int64_t token = 0; token < num_tokens; ++token)
      sum += double{weights[static_cast<size_t>(token * num_frames + frame)]};
    const double mean = sum / static_cast<double>(num_tokens);
    for (int64_t token = 0; token < num_tokens; ++token)
      sum_of_squares +=
          std::pow(double{weights[static_cast<size_t>(token * num_frames + frame)]} - mean, 2.0);
    // Where all tokens have the same weight, a frame speaks for none of them.
    const double deviation = std::sqrt(sum_of_squares / static_cast<double>(num_tokens));
    const double factor = deviation > 0.0 ? 1.0 / deviation : 0.0;
    for (int64_t token = 0; token < num_tokens; ++token) {
      float& value = result[static_cast<size_t>(token * num_frames + frame)];
      value = static_cast<float>((double{value} - mean) * factor);
    }
  }
  return result;
}

}  // namespace

std::vector<float> median_filtered(std::span<const float> row, int64_t width) {
  SOTTO_ASSERT(width > 0 && width % 2 == 1, "a filter of width {}", width);
  const int64_t size = std::ssize(row);
  const int64_t half = width / 2;
  std::vector<float> result(row.begin(), row.end());
  if (size <= half) return result;
  std::vector<float> around(static_cast<size_t>(width));
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t n = 0; n < width; ++n) {
      const int64_t at = std::abs(i + n - half);
      around[static_cast<size_t>(n)] = row[static_cast<size_t>(std::min(at, 2 * (size - 1) - at))];
    }
    std::ranges::nth_element(around, around.begin() + half);
    result[static_cast<size_t>(i)] = around[static_cast<size_t>(half)];
  }
  return result;
}

WarpPath cheapest_path(std::span<const double> costs, int64_t num_columns) {
  const int64_t num_rows = std::ssize(costs) / num_columns;
  SOTTO_ASSERT(num_rows > 0 && std::ssize(costs) == num_rows * num_columns,
               "{} costs in {} columns", costs.size(), num_columns);
  constexpr float kNever = std::numeric_limits<float>::infinity();
  // Sums of the row before and of this one, each with a column before the first. In single
  // precision, as everywhere: equal sums are then the same ones.
  std::vector<float> before(static_cast<size_t>(num_columns + 1), kNever);
  std::vector<float> sums(static_cast<size_t>(num_columns + 1), kNever);
  before[0] = 0.0f;
  std::vector<Step> steps(costs.size());
  for (size_t row = 0; row < static_cast<size_t>(num_rows); ++row) {
    sums[0] = kNever;
    for (size_t column = 0; column < static_cast<size_t>(num_columns); ++column) {
      const float by_both = before[column], by_row = before[column + 1], by_column = sums[column];
      Step step = Step::kColumn;
      if (by_both < by_row && by_both < by_column) step = Step::kBoth;
      if (by_row < by_both && by_row < by_column) step = Step::kRow;
      const float least = step == Step::kBoth ? by_both : step == Step::kRow ? by_row : by_column;
      const size_t cell = row * static_cast<size_t>(num_columns) + column;
      steps[cell] = step;
      sums[column + 1] = static_cast<float>(costs[cell] + double{least});
    }
    std::swap(before, sums);
  }
  WarpPath path;
  int64_t row = num_rows - 1, column = num_columns - 1;
  while (true) {
    path.rows.push_back(row);
    path.columns.push_back(column);
    if (row == 0 && column == 0) break;
    Step step = steps[static_cast<size_t>(row * num_columns + column)];
    if (row == 0) step = Step::kColumn;
    if (column == 0) step = Step::kRow;
    if (step != Step::kColumn) --row;
    if (step != Step::kRow) --column;
  }
  std::ranges::reverse(path.rows);
  std::ranges::reverse(path.columns);
  return path;
}

std::vector<int64_t> warped_frames(const HeadWeights& weights, int64_t filter_width) {
  const int64_t num_frames = weights.num_frames;
  if (weights.values.empty()) return {};
  SOTTO_ASSERT(weights.num_heads > 0 && num_frames > 0 &&
                   std::ssize(weights.values) % (weights.num_heads * num_frames) == 0,
               "{} weights of {} heads and {} frames", weights.values.size(), weights.num_heads,
               num_frames);
  const int64_t size = std::ssize(weights.values) / weights.num_heads;  // L M
  std::vector<double> costs(static_cast<size_t>(size), 0.0);
  for (int64_t head = 0; head < weights.num_heads; ++head) {
    const std::vector<float> of_head = normalised(
        weights.values.subspan(static_cast<size_t>(head * size), static_cast<size_t>(size)),
        num_frames);
    for (int64_t first = 0; first < size; first += num_frames) {
      const std::vector<float> row = median_filtered(
          std::span(of_head).subspan(static_cast<size_t>(first), static_cast<size_t>(num_frames)),
          filter_width);
      for (size_t frame = 0; frame < row.size(); ++frame)
        costs[static_cast<size_t>(first) + frame] -=
            double{row[frame]} / static_cast<double>(weights.num_heads);
    }
  }
  const WarpPath path = cheapest_path(costs, num_frames);
  std::vector<int64_t> frames;
  for (size_t i = 0; i < path.rows.size(); ++i)
    if (i == 0 || path.rows[i] != path.rows[i - 1]) frames.push_back(path.columns[i]);
  return frames;
}

}  // namespace sotto::decode
