// Activations: Gelu (exact, with the normal distribution's integral), Relu, Silu. Any shape,
// contiguous.
//
// Allocates: forward y. Backward works in place: dy becomes dx, so that a feed-forward layer holds
// one gradient less.
#pragma once

#include <ATen/core/Tensor.h>

namespace sotto::kernels {

struct Gelu {
  // y = x * Phi(x)
  static at::Tensor forward(const at::Tensor& x);
  // dy becomes dx; x is forward's input.
  static void backward(at::Tensor& dy, const at::Tensor& x);
};

struct Relu {
  // y = max(x, 0)
  static at::Tensor forward(const at::Tensor& x);
  // dy becomes dx; x is forward's input or its result, whichever is kept.
  static void backward(at::Tensor& dy, const at::Tensor& x);
};

struct Silu {
  // y = x / (1 + e^-x)
  static at::Tensor forward(const at::Tensor& x);
  // dy becomes dx; x is forward's input.
  static void backward(at::Tensor& dy, const at::Tensor& x);
};

}  // namespace sotto::kernels
