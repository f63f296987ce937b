// Relative positions in a call of attention: checks, workspace, and the choice of the CUDA version.
// Internal to the kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/attention/attention_shape.h"
#include "sotto/kernels/attention/attention_task.h"

namespace sotto::kernels::detail {

// Returns whether rows of that type on the GPU that they are for are computed on tensor cores.
bool has_relative_on_tensor_cores(const at::Tensor& like, const AttentionShape& shape);

// Checks the relative positions of a call.
void check_relative(const at::Tensor& qkv, const AttentionShape& shape);

// The workspace of forward; nothing without relative positions. H heads, N frames, P rows of the
// table.
class RelativeForward {
 public:
  // `like`: has the type and device of q.
  RelativeForward(const at::Tensor& like, const AttentionShape& shape);

  CudaRelative inputs(const AttentionShape& shape) const;

 private:
  at::Tensor content_terms_;   // [H, N], fp32 like all
  at::Tensor position_terms_;  // [H, P]
};

// The workspace of backward, and the gradient of the positions.
class RelativeBackward {
 public:
  RelativeBackward(const at::Tensor& dy, const AttentionShape& shape);

  CudaRelative inputs(const AttentionShape& shape) const { return terms_.inputs(shape); }
  CudaRelativeGradients gradients(const AttentionShape& shape) const;
  const at::Tensor& position_sums() const { return position_sums_; }
  const at::Tensor& row_sums() const { return row_sums_; }

 private:
  void allocate_for_cpu(const at::Tensor& dy, const AttentionShape& shape);
  void allocate_for_cuda(const at::Tensor& dy, const AttentionShape& shape);

  RelativeForward terms_;
  // Sums of the gradients of positions, and of biases or scores: attention_task.h, and for the CPU
  // attention_relative_tile.h.
  at::Tensor position_sums_;
  at::Tensor row_sums_;
  at::Tensor query_sums_;
  at::Tensor progress_;
  at::Tensor key_sums_;
  at::Tensor table_sums_;
  at::Tensor slabs_;
};

}  // namespace sotto::kernels::detail
