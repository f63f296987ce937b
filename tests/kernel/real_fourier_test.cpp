// The Fourier transform of the CPU's log-mel features against its definition in double precision,
// lane by lane, and the logarithm behind it against that of the standard library.
#include "sotto/kernels/features/real_fourier.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/kernels/simd/lane_transpose.h"
#include "sotto/kernels/simd/simd_math.h"
#include "support/tolerance.h"

namespace sotto::test {
namespace real_fourier_test {

using kernels::kSignalsAtOnce;
using kernels::RealFourier;
namespace simd = kernels::simd;

std::vector<float> random_numbers(int64_t count, uint64_t number) {
  std::vector<float> values(static_cast<size_t>(count));
  RandomStream({.seed = 7}, {.utterance = number}).fill_normal(values, 0);
  return values;
}

// What the transform makes of signals [points, kSignalsAtOnce].
struct Transformed {
  std::vector<float> values;  // [N, 2, kSignalsAtOnce]
  std::vector<float> powers;  // [F, kSignalsAtOnce]
};

Transformed run(const RealFourier& fourier, const std::vector<float>& signals) {
  std::vector<float> factors(static_cast<size_t>(fourier.num_factors()));
  std::vector<int32_t> order(static_cast<size_t>(fourier.num_complex()));
  fourier.fill_factors(factors);
  fourier.fill_order(order);
  Transformed result{.values = std::vector<float>(signals.size()),
                     .powers = std::vector<float>(
                         static_cast<size_t>(fourier.num_frequencies() * kSignalsAtOnce))};
  constexpr auto kPair = static_cast<size_t>(2 * kSignalsAtOnce);
  for (size_t t = 0; t < order.size(); ++t)
    std::copy_n(signals.data() + t * kPair, kPair,
                result.values.data() + static_cast<size_t>(order[t]) * kPair);
  std::vector<float> room(signals.size());
  fourier.transform(result.values.data(), room.data(), factors.data());
  fourier.take_powers(result.values.data(), result.powers.data(), factors.data());
  return result;
}

using Values = std::vector<std::complex<double>>;

Values definition(const Values& x, size_t num_frequencies) {
  Values result;
  for (size_t k = 0; k < num_frequencies; ++k) {
    std::complex<double> sum = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto turn = static_cast<double>(i * k % x.size()) / static_cast<double>(x.size());
      sum += x[i] * std::polar(1.0, -2.0 * std::numbers::pi * turn);
    }
    result.push_back(sum);
  }
  return result;
}

double largest_of(const Values& values) {
  double largest = 0.0;
  for (const std::complex<double>& value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

class RealFourierTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(RealFourierTest, MatchesTheDefinition) {
  const int64_t points = GetParam();
  const RealFourier fourier(points);
  const std::vector<float> signals =
      random_numbers(points * kSignalsAtOnce, static_cast<uint64_t>(points));
  const Transformed ours = run(fourier, signals);
  constexpr auto kLanes = static_cast<size_t>(kSignalsAtOnce);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    Values real, pairs;
    for (size_t i = 0; i < static_cast<size_t>(points); ++i)
      real.emplace_back(signals[i * kLanes + lane]);
    for (size_t i = 0; i < real.size(); i += 2)
      pairs.emplace_back(real[i].real(), real[i + 1].real());
    const Values complex_truth = definition(pairs, pairs.size());
    for (size_t k = 0; k < pairs.size(); ++k) {
      const std::complex<double> value(ours.values[2 * k * kLanes + lane],
                                       ours.values[(2 * k + 1) * kLanes + lane]);
      ASSERT_LE(std::abs(value - complex_truth[k]), kFourierTolerance * largest_of(complex_truth))
          << "complex value " << k << " in lane " << lane;
    }
    const Values truth = definition(real, static_cast<size_t>(fourier.num_frequencies()));
    const double largest = std::norm(largest_of(truth));
    for (size_t k = 0; k < truth.size(); ++k) {
      ASSERT_LE(std::abs(ours.powers[k * kLanes + lane] / 4.0 - std::norm(truth[k])),
                2.0 * kFourierTolerance * largest)
          << "frequency " << k << " in lane " << lane;
    }
  }
}

std::vector<int64_t> sizes() {
  // Two general primes, one of them twice, and a prime alone.
  std::vector<int64_t> sizes = {2 * 7 * 11, 2 * 7 * 7 * 4, 2 * 101, 400, 512, 1024};
  for (int64_t size = 2; size <= 64; size += 2) sizes.push_back(size);
  return sizes;
}

INSTANTIATE_TEST_SUITE_P(Sizes, RealFourierTest, ::testing::ValuesIn(sizes()),
                         ::testing::PrintToStringParamName());

// A signal has the same bits in every lane, whatever the others contain.
TEST(RealFourier, LanesAreIndependent) {
  const RealFourier fourier(400);
  constexpr auto kLanes = static_cast<size_t>(kSignalsAtOnce);
  const std::vector<float> signal = random_numbers(400, 1);
  std::vector<float> alone;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    std::vector<float> signals = random_numbers(400 * kSignalsAtOnce, 2 + lane);
    for (size_t i = 0; i < signal.size(); ++i) signals[i * kLanes + lane] = signal[i];
    const std::vector<float> powers = run(fourier, signals).powers;
    std::vector<float> of_lane;
    for (size_t i = lane; i < powers.size(); i += kLanes) of_lane.push_back(powers[i]);
    if (lane == 0) alone = of_lane;
    EXPECT_EQ(of_lane, alone) << "lane " << lane;
  }
}

TEST(RealFourier, RefusesOddSizes) {
  EXPECT_THROW(RealFourier(15), InternalError);
  EXPECT_THROW(RealFourier(0), InternalError);
}

TEST(LaneTranspose, MovesRowsIntoLanesAndBack) {
  constexpr int64_t kWidth = 11;
  const std::vector<float> from = random_numbers(kSignalsAtOnce * kWidth, 3);
  const float* rows[kSignalsAtOnce];
  for (int64_t row = 0; row < kSignalsAtOnce; ++row) rows[row] = from.data() + row * kWidth;
  simd::Lanes::Register x[simd::kQuad];
  simd::load_columns(x, rows, 5);
  for (int64_t i = 0; i < simd::kQuad; ++i) {
    for (int64_t row = 0; row < kSignalsAtOnce; ++row) EXPECT_EQ(x[i][row], rows[row][5 + i]);
  }
  // Rows behind the count stay as they are.
  for (int64_t count = 1; count <= kSignalsAtOnce; ++count) {
    std::vector<float> to(from.size(), -7.0f);
    simd::load_columns(x, rows, 5);
    simd::store_columns(to.data() + 2, kWidth, count, x);
    for (int64_t row = 0; row < kSignalsAtOnce; ++row) {
      for (int64_t column = 0; column < kWidth; ++column) {
        const bool is_written = row < count && column >= 2 && column < 2 + simd::kQuad;
        EXPECT_EQ(to[static_cast<size_t>(row * kWidth + column)],
                  is_written ? rows[row][column + 3] : -7.0f);
      }
    }
  }
}

TEST(SimdMath, LogarithmMatchesDoublePrecision) {
  const auto log_of = [](float value) {
    float results[simd::kLanes];
    simd::store(results, simd::log(value), simd::Full{});
    return results[simd::kLanes - 1];
  };
  const auto expect_log = [&](double value) {
    const auto x = static_cast<float>(value);
    const double truth = std::log(static_cast<double>(x));
    ASSERT_LE(std::abs(log_of(x) - truth), 1.2e-7 * std::abs(truth)) << x;
  };
  // From 2^-126 to 2^127.9.
  for (int i = 0; i < 469'000; ++i) expect_log(0x1p-126 * std::pow(1.000375, i));
  // Where the logarithm goes through 0.
  for (int i = 0; i < 47'000; ++i) expect_log(0.7 + 1.7e-5 * i);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(log_of(1.0f), 0.0f);
  EXPECT_EQ(log_of(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log_of(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace real_fourier_test
}  // namespace sotto::test
