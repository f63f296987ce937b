#include "sotto/train/step/early_stopping.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sotto::train {
namespace {

// After how many of the evaluations the run is over; 0: after none.
int64_t end_of(const EarlyStoppingOptions& options, const std::vector<double>& metrics) {
  EarlyStopping state;
  for (size_t i = 0; i < metrics.size(); ++i) {
    state.update(options, metrics[i]);
    if (state.is_over(options)) return static_cast<int64_t>(i) + 1;
  }
  return 0;
}

TEST(EarlyStopping, ComesAfterPatienceEvaluationsWithoutGain) {
  const std::vector<double> metrics = {0.9, 0.5, 0.6, 0.5, 0.4, 0.4, 0.7, 0.41};
  EXPECT_EQ(end_of({.patience = 1}, metrics), 3);
  EXPECT_EQ(end_of({.patience = 2}, metrics), 4);
  EXPECT_EQ(end_of({.patience = 3}, metrics), 8);
  EXPECT_EQ(end_of({.patience = 4}, metrics), 0);
}

TEST(EarlyStopping, IsOffByDefault) {
  EXPECT_EQ(end_of({}, std::vector<double>(100, 1.0)), 0);
}

TEST(EarlyStopping, IgnoresSmallGains) {
  const std::vector<double> slow = {0.50, 0.49, 0.48, 0.47, 0.46};
  EXPECT_EQ(end_of({.patience = 2}, slow), 0);
  EXPECT_EQ(end_of({.patience = 2, .difference = 0.1}, slow), 3);
  // Against the last that was better by the difference: gains add up.
  EXPECT_EQ(end_of({.patience = 2, .difference = 0.015}, slow), 0);
}

TEST(EarlyStopping, TreatsNonFiniteLossAsNoGain) {
  EXPECT_EQ(end_of({.patience = 2}, {NAN, NAN}), 2);
  EXPECT_EQ(end_of({.patience = 2}, {INFINITY, 0.5, NAN, INFINITY}), 4);
}

}  // namespace
}  // namespace sotto::train
