// From what kernels report to seconds.
#include "sotto/kernels/base/cost.h"

#include <gtest/gtest.h>

namespace sotto::kernels {
namespace cost_test {

Rates round_rates() {
  Rates rates{.bytes_per_s = 10.0, .link_bytes_per_s = 5.0};
  rates.flops_per_s.fill(100.0);
  rates.seconds_per_call.fill(0.25);
  return rates;
}

TEST(Rates, UseTheLongerOfComputeAndCopy) {
  const Rates rates = round_rates();
  EXPECT_DOUBLE_EQ(rates.seconds_of({.flops = 300.0, .bytes = 20.0}), 3.25);
  EXPECT_DOUBLE_EQ(rates.seconds_of({.flops = 100.0, .bytes = 20.0}), 2.25);
  EXPECT_DOUBLE_EQ(rates.seconds_of({.bytes = 20.0, .work = Work::kCopyToHost}), 4.0);
  EXPECT_DOUBLE_EQ(rates.seconds_of({.bytes = 20.0, .work = Work::kCopyToDevice}), 4.0);
}

TEST(Rates, AddBothForPackingProducts) {
  Rates rates = round_rates();
  rates.packed_bytes_per_s[static_cast<size_t>(Work::kProduct16)] = 20.0;
  const Cost cost{.flops = 300.0, .bytes = 20.0, .work = Work::kProduct16};
  EXPECT_DOUBLE_EQ(rates.seconds_of(cost), 4.25);
  EXPECT_DOUBLE_EQ(rates.seconds_of({.flops = 300.0, .bytes = 20.0}), 3.25);
}

TEST(PackedRates, FitBothMeasurements) {
  // 100 operations a second, 20 bytes a second.
  const KernelCost small{.total = {.flops = 100.0, .bytes = 60.0}, .seconds = 4.0};
  const KernelCost large{.total = {.flops = 1'000.0, .bytes = 80.0}, .seconds = 14.0};
  const PackedRates rates = PackedRates::through(small, large);
  EXPECT_NEAR(rates.flops_per_s, 100.0, 1e-9);
  EXPECT_NEAR(rates.bytes_per_s, 20.0, 1e-9);
}

TEST(PackedRates, FallBackToTheLargerMeasurement) {
  const KernelCost small{.total = {.flops = 100.0, .bytes = 60.0}, .seconds = 4.0};
  for (const double seconds : {1.0, 100.0}) {
    const KernelCost large{.total = {.flops = 1'000.0, .bytes = 80.0}, .seconds = seconds};
    const PackedRates rates = PackedRates::through(small, large);
    EXPECT_DOUBLE_EQ(rates.flops_per_s, 1'000.0 / seconds);
    EXPECT_EQ(rates.bytes_per_s, 0.0);
  }
}

}  // namespace cost_test
}  // namespace sotto::kernels
