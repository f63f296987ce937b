// Softmax over the width of each row. N rows, D width.
//
// Allocates: forward y; backward dx.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct Softmax {
  // y [N, D] = exp(x) / sum of exp(x), row by row, safe for any finite x.
  static at::Tensor forward(const at::Tensor& x);
  // dx [N, D] for dy [N, D]; y is forward's result.
  static at::Tensor backward(const at::Tensor& dy, const at::Tensor& y);
};

}  // namespace sotto::kernels
