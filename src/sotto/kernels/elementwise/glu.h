// Gated linear unit over the width: the first half of a row times the sigmoid of its second half. N
// rows, D half width.
//
// Allocates: forward y; backward dx.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct Glu {
  // y [N, D] = a * sigmoid(b) for x = [a b] [N, 2 D].
  static at::Tensor forward(const at::Tensor& x);
  // dx [N, 2 D] for dy [N, D]; x is forward's input.
  static at::Tensor backward(const at::Tensor& dy, const at::Tensor& x);
};

}  // namespace sotto::kernels
