// Lookup of table rows by index, and scatter of their gradients. N tokens, V entries, D width.
//
// Allocates: forward y. The scatter adds in the order of the tokens, so that its result does not
// depend on the cores.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct Embedding {
  // y [N, D] = table[ids]; ids [N] int32, table [V, D].
  static at::Tensor forward(const at::Tensor& ids, const at::Tensor& table);
  // grad_table [V, D] += dy [N, D] at ids; grad_table is fp32 or of dy's type.
  static void backward(const at::Tensor& dy, const at::Tensor& ids, at::Tensor& grad_table);
};

}  // namespace sotto::kernels
