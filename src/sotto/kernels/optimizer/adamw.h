// One step of AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", algorithm 2)
// over a flat range of parameters, in one pass over memory. n values. The arithmetic is that of
// torch.optim.AdamW, in fp32 for all formats of weights, gradients and moments, and all formats
// round identically on every device.
//
// Weights are fp32, or bf16 with 16, 8 or no bits of remainder (split_float.h). With 16 bits both
// together are exactly an fp32 number. With fewer the step is rounded stochastically, unbiased; the
// random bits are a function of the key and the position of a value.
//
// Moments are fp32, or 8-bit codes, with one scale for each block of 256 values (moment_map.h): the
// largest of the block. A block is read, updated and written in one pass.
//
// Clipping is included: the gradients' norm is read on the device, so that the host need not wait
// for it.
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
    at::Tensor* remainder = nullptr;  // for bf16 weights, [n] int16 or uint8, changed in place;
                                      // null: none
    const at::Tensor& gradients;      // [n] fp32 or bf16, read once
    at::Tensor& first_moment;         // [n] fp32, or uint8 codes, changed in place
    at::Tensor& second_moment;        // same format as the first moment
    // Scales of codes, [blocks] fp32, changed in place; null with fp32. Zeros before the first
    // step, like fp32 moments; codes may then have any value.
    at::Tensor* first_scales = nullptr;
    at::Tensor* second_scales = nullptr;
    // Position of the first value among all that share the key of rounding: a multiple of 256.
    int64_t first_value = 0;
  };

  struct Coefficients {
    // The learning rate of this step.
    double rate = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    // Added to the root of the second moment.
    double epsilon = 1e-8;
    // Fraction of a weight, times the rate, that is subtracted from it at each step.
    double weight_decay = 0.01;
    // Counts from 1: the moments' bias correction depends on it.
    int64_t step = 1;
    // Factor of each gradient: the inverse of the loss scale.
    double gradient_scale = 1.0;
    // Maximum norm of the scaled gradients, to which larger norms are reduced; 0: no clipping.
    double clip_norm = 0.0;
    // Key of the random bits of rounding, for weights with missing bits.
    RandomKey rounding = {.purpose = Purpose::kRounding};
  };

  // Updates weights and moments. square_sum fp64 [1], on the device of the weights: the sum of
  // squares of all unscaled gradients of the step. If it is not finite, nothing changes.
  static void update(const Range& range, const Coefficients& coefficients,
                     const at::Tensor& square_sum);
};

}  // namespace sotto::kernels
