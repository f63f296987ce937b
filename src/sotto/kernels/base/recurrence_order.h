// The order in which a recurrence walks through a pack: step by step, and in each step the longest
// sequences first, so that the sequences of a step are the first of those of the step before. Rows
// of one step are adjacent. N rows, B sequences.
//
//   sequences a a a, b, c c    ordered rows a0 c0 b0, a1 c1, a2
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

class RecurrenceOrder {
 public:
  explicit RecurrenceOrder(const Packing& packing);

  int64_t num_rows() const { return first_rows_.back(); }
  int64_t num_sequences() const { return rows_in(0); }
  int64_t num_steps() const { return static_cast<int64_t>(first_rows_.size()) - 1; }

  // Returns the first ordered row of a step, and the number of its rows. There are none after the
  // last step.
  int64_t first_row(int64_t step) const;
  int64_t rows_in(int64_t step) const;

  // int32 on the device: the packed row of each ordered row, and the reverse, [N]; the ordered row
  // one step before each row after the first step, [N - B].
  const at::Tensor& packed_rows() const { return packed_rows_; }
  const at::Tensor& ordered_rows() const { return ordered_rows_; }
  const at::Tensor& earlier_rows() const { return earlier_rows_; }

 private:
  std::vector<int64_t> first_rows_;  // of each step, and N
  at::Tensor packed_rows_;
  at::Tensor ordered_rows_;
  at::Tensor earlier_rows_;
};

}  // namespace sotto::kernels
