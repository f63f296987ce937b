// One step of AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", algorithm 2)
// over a flat range of parameters, in one pass over memory. n values. The arithmetic is that of
// torch.optim.AdamW.
//
// Allocates nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sotto::kernels {

struct AdamW {
  // All [n] fp32.
  struct Range {
    at::Tensor& weights;          // changed in place
    const at::Tensor& gradients;  // read once
    at::Tensor& first_moment;     // changed in place; zeros before the first step
    at::Tensor& second_moment;    // changed in place; zeros before the first step
  };

  struct Coefficients {
    // The learning rate of this step.
    double rate = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    // Added to the root of the second moment.
    double epsilon = 1e-8;
    // The share of a weight, times the rate, taken off it at each step.
    double weight_decay = 0.01;
    // Counts from 1: the moments' bias correction depends on it.
    int64_t step = 1;
    // Multiplies each gradient as it is read, so that clipping costs no pass of its own.
    double gradient_scale = 1.0;
  };

  // Updates weights and moments. A value that is not finite spreads to its own weight alone.
  static void update(const Range& range, const Coefficients& coefficients);
};

}  // namespace sotto::kernels
