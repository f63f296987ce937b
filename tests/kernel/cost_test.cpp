// From what kernels report to seconds.
#include "sotto/kernels/cost.h"

#include <gtest/gtest.h>

namespace sotto::kernels {
namespace {

Rates round_rates() {
  Rates rates{.bytes_per_s = 10.0, .link_bytes_per_s = 5.0};
  rates.flops_per_s.fill(100.0);
  rates.seconds_per_call.fill(0.25);
  return rates;
}

TEST(Rates, TakeWhatLastsLonger) {
  const Rates rates = round_rates();
  EXPECT_DOUBLE_EQ(rates.seconds_of({.flops = 300.0, .bytes = 20.0}), 3.25);
  EXPECT_DOUBLE_EQ(rates.seconds_of({.flops = 100.0, .bytes = 20.0}), 2.25);
  EXPECT_DOUBLE_EQ(rates.seconds_of({.bytes = 20.0, .work = Work::kLink}), 4.0);
}

TEST(Rates, OfAProductThatPacksItsOperandsAddBoth) {
  Rates rates = round_rates();
  rates.packs_operands = true;
  for (const Work work : {Work::kProduct32, Work::kProduct16})
    EXPECT_DOUBLE_EQ(rates.seconds_of({.flops = 300.0, .bytes = 20.0, .work = work}), 5.25);
  EXPECT_DOUBLE_EQ(rates.seconds_of({.flops = 300.0, .bytes = 20.0}), 3.25);
}

}  // namespace
}  // namespace sotto::kernels
