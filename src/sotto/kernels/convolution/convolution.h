// A strided convolution over the frames of one piece of audio, without padding, as dense products:
// the frames under the kernel lie one behind the other in memory, so that a row of the product is a
// view. Where windows overlap, BLAS wants them in parts of one stride each. T frames, I inputs, W
// taps of the kernel, M = (T - W) / stride + 1 results, O outputs.
//
// Allocates: forward y; input_gradient dx. Where a stride has fewer than kLeastInputs values (the
// waveform itself), as workspace the windows side by side [M, W I], rows filled up to whole
// vectors, and the weight so too.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sotto::kernels {

struct Convolution {
  struct Options {
    int64_t size = 3;
    int64_t stride = 2;
  };

  // Values in a stride below which products of views are not worth their while.
  static constexpr int64_t kLeastInputs = 16;

  // Results of `frames`; 0 where there are fewer than the kernel's.
  static int64_t num_results(int64_t frames, const Options& options);

  // y [M, O] of x [T, I]; weight [O, W I], of x's type, holds the inputs of the first tap, then of
  // the second; bias [O] fp32 or of x's type; null: none.
  static at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor* bias,
                            const Options& options);

  // The same into `y`.
  static void forward_into(at::Tensor& y, const at::Tensor& x, const at::Tensor& weight,
                           const at::Tensor* bias, const Options& options);

  // dx [num_frames, I] of dy [M, O].
  static at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                   int64_t num_frames, const Options& options);

  // grad_weight [O, W I] fp32 += that of dy [M, O] and x [T, I].
  static void accumulate(at::Tensor& grad_weight, const at::Tensor& dy, const at::Tensor& x,
                         const Options& options);
};

}  // namespace sotto::kernels
