// One step of AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", algorithm 2)
// over a flat range of parameters, in one pass over memory. n values. The arithmetic is that of
// torch.optim.AdamW, in fp32 whatever the forms of weights, gradients and moments are, and all
// forms round alike on every device.
//
// Weights are fp32, or bf16 with 16, 8 or no bits of remainder beside them (split_float.h). With 16
// both together are an fp32 number to the bit. With fewer the step is rounded up or down at random,
// right in the mean; the random bits are a function of key and place of a value.
//
// Moments are fp32, or codes of 8 bits, with one scale for each block of 256 values
// (moment_map.h): the largest of the block. A block is read, updated and written in one pass.
//
// Clipping is inside: the gradients' norm is read where it lies, so that the host need not wait for
// it.
//
// Allocates nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/core/rng.h"

namespace sotto::kernels {

struct AdamW {
  struct Range {
    at::Tensor& weights;              // [n] fp32 or bf16, changed in place
    at::Tensor* remainder = nullptr;  // of bf16 weights, [n] int16 or uint8, changed; null: none
    const at::Tensor& gradients;      // [n] fp32 or bf16, read once
    at::Tensor& first_moment;         // [n] fp32, or uint8 codes, changed in place
    at::Tensor& second_moment;        // as the first
    // Of codes, [blocks] fp32, changed in place; null with fp32. Zeros before the first step, as
    // are moments in fp32; codes may then be anything.
    at::Tensor* first_scales = nullptr;
    at::Tensor* second_scales = nullptr;
    // The place of the first value among all that share the key of rounding: a multiple of 256.
    int64_t first_value = 0;
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
    // What the random bits of rounding are keyed by, where the weights leave bits out.
    RandomKey rounding = {.purpose = Purpose::kRounding};
  };

  // Updates weights and moments. square_sum fp64 [1], on the device of the weights: of all
  // gradients of the step as they lie in memory. Where it is not finite nothing changes.
  static void update(const Range& range, const Coefficients& coefficients,
                     const at::Tensor& square_sum);
};

}  // namespace sotto::kernels
