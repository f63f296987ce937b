// The order of a recurrence's rows.
#include "sotto/kernels/base/recurrence_order.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace sotto::kernels {
namespace recurrence_order_test {

at::Tensor ints(const std::vector<int32_t>& values) {
  return at::tensor(values, at::kInt);
}

TEST(RecurrenceOrder, TakesTheLongestFirst) {
  const RecurrenceOrder order(Packing({1, 3, 2, 3}, at::kCPU));
  EXPECT_EQ(order.num_rows(), 9);
  EXPECT_EQ(order.num_sequences(), 4);
  EXPECT_EQ(order.num_steps(), 3);
  // Equal lengths stay in their order: sequences 1, 3, 2, 0, whose rows begin at 1, 6, 4, 0.
  EXPECT_TRUE(at::equal(order.packed_rows(), ints({1, 6, 4, 0, 2, 7, 5, 3, 8})));
  EXPECT_TRUE(at::equal(order.ordered_rows(), ints({3, 0, 4, 7, 2, 6, 1, 5, 8})));
  EXPECT_TRUE(at::equal(order.earlier_rows(), ints({0, 1, 2, 4, 5})));
  const std::vector<int64_t> counts = {4, 3, 2};
  for (int64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(order.rows_in(step), counts[static_cast<size_t>(step)]);
    EXPECT_EQ(order.first_row(step), step == 0 ? 0 : step == 1 ? 4 : 7);
  }
  EXPECT_EQ(order.rows_in(3), 0) << "no rows after the last step";
}

TEST(RecurrenceOrder, OfSingleRowsHasNoEarlierOnes) {
  const RecurrenceOrder order(Packing({1, 1}, at::kCPU));
  EXPECT_EQ(order.num_steps(), 1);
  EXPECT_TRUE(at::equal(order.packed_rows(), ints({0, 1})));
  EXPECT_EQ(order.earlier_rows().numel(), 0);
}

}  // namespace recurrence_order_test
}  // namespace sotto::kernels
