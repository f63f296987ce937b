// Activations: Gelu (exact, with the normal distribution function), Relu, Silu. Any shape,
// contiguous. With `dropped`, dropout is applied to the result in the same pass; x is then [N, D],
// the rows of the pack.
//
// Allocates: forward y. Backward works in place: dy becomes dx, so that a feed-forward layer holds
// one gradient less.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/elementwise/dropout.h"

namespace sotto::kernels {

struct Gelu {
  // y = dropout(x * Phi(x))
  static at::Tensor forward(const at::Tensor& x, const Dropped* dropped = nullptr);
  // dy becomes dx; x is forward's input.
  static void backward(at::Tensor& dy, const at::Tensor& x, const Dropped* dropped = nullptr);
};

struct Relu {
  // y = dropout(max(x, 0))
  static at::Tensor forward(const at::Tensor& x, const Dropped* dropped = nullptr);
  // dy becomes dx; x is forward's input or its result, whichever is kept.
  static void backward(at::Tensor& dy, const at::Tensor& x, const Dropped* dropped = nullptr);
};

struct Silu {
  // y = dropout(x / (1 + e^-x))
  static at::Tensor forward(const at::Tensor& x, const Dropped* dropped = nullptr);
  // dy becomes dx; x is forward's input.
  static void backward(at::Tensor& dy, const at::Tensor& x, const Dropped* dropped = nullptr);
};

}  // namespace sotto::kernels
