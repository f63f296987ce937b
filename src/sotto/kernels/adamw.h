// One step of AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", algorithm 2)
// over a flat range of parameters, in one pass over memory. n values. The arithmetic is that of
// torch.optim.AdamW, in fp32 whatever the weights are.
//
// Weights in bf16 have a remainder beside them: both together are an fp32 number to the bit
// (split_float.h), so that nothing of a step is lost, in the bytes of fp32 weights.
//
// Clipping is inside: the gradients' norm is read where it lies, so that the host need not wait for
// it.
//
// Allocates nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sotto::kernels {

struct AdamW {
  struct Range {
    at::Tensor& weights;              // [n] fp32, or bf16 with a remainder; changed in place
    at::Tensor* remainder = nullptr;  // [n] int16, changed in place; null with fp32 weights
    const at::Tensor& gradients;      // [n] fp32, read once
    at::Tensor& first_moment;         // [n] fp32, changed in place; zeros before the first step
    at::Tensor& second_moment;        // [n] fp32, changed in place; zeros before the first step
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
    // Multiplies each gradient as it is read: one over the scale of the loss.
    double gradient_scale = 1.0;
    // Where the norm of the scaled gradients is above it, they are brought down to it; 0: never.
    double clip_norm = 0.0;
  };

  // Updates weights and moments. square_sum fp64 [1], on the device of the weights: of all
  // gradients of the step as they lie in memory. Where it is not finite nothing changes.
  static void update(const Range& range, const Coefficients& coefficients,
                     const at::Tensor& square_sum);
};

}  // namespace sotto::kernels
