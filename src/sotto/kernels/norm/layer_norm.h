// Layer normalisation over the width of each row. N rows (frames), D width.
//
// Allocates: forward y, mean, rstd; backward dx, and as workspace fp32 [slabs, 2, D] for the
// parameters' gradients.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct LayerNorm {
  struct Result {
    at::Tensor y;     // [N, D], type of x
    at::Tensor mean;  // [N] fp32
    at::Tensor rstd;  // [N] fp32, 1 / sqrt(variance + epsilon)
  };

  struct Parameters {
    const at::Tensor& gamma;  // [D] fp32
    const at::Tensor& beta;   // [D] fp32
    double epsilon = 1e-5;
  };

  struct BackwardInputs {
    const at::Tensor& dy;     // [N, D]
    const at::Tensor& x;      // [N, D]
    const at::Tensor& mean;   // [N]
    const at::Tensor& rstd;   // [N]
    const at::Tensor& gamma;  // [D]
    // [N, D], a gradient that bypasses the norm: added to dx; null: none.
    const at::Tensor* residual = nullptr;
  };

  struct Gradients {
    at::Tensor& gamma;  // [D] fp32, added to
    at::Tensor& beta;   // [D] fp32, added to
  };

  // y = (x - mean) rstd gamma + beta, row by row.
  static Result forward(const at::Tensor& x, const Parameters& parameters);

  // Returns dx [N, D], with the residual added before rounding; adds to the parameters' gradients.
  static at::Tensor backward(const BackwardInputs& in, const Gradients& gradients);
};

}  // namespace sotto::kernels
