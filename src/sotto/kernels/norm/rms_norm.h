// Root-mean-square normalisation over the width of each row. N rows (frames), D width.
//
// Allocates: forward y, rstd; backward dx, and as workspace fp32 [slabs, D] for the parameter's
// gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct RmsNorm {
  struct Result {
    at::Tensor y;     // [N, D], type of x
    at::Tensor rstd;  // [N] fp32, 1 / sqrt(mean square + epsilon)
  };

  struct BackwardInputs {
    const at::Tensor& dy;     // [N, D]
    const at::Tensor& x;      // [N, D]
    const at::Tensor& rstd;   // [N]
    const at::Tensor& gamma;  // [D] fp32
    // [N, D], a gradient that bypasses the norm: added to dx; null: none.
    const at::Tensor* residual = nullptr;
  };

  // y = x rstd gamma, row by row; gamma [D] fp32.
  static Result forward(const at::Tensor& x, const at::Tensor& gamma, double epsilon = 1e-6);

  // Returns dx [N, D], with the residual added before rounding; adds to grad_gamma [D] fp32.
  static at::Tensor backward(const BackwardInputs& in, at::Tensor& grad_gamma);
};

}  // namespace sotto::kernels
