// A strided convolution over the frames of one piece of audio, without padding, as dense products:
// the frames under the kernel are adjacent in memory, so that a row of the product is a view.
// Overlapping windows are split into parts of one stride each, because BLAS requires this. T
// frames, I inputs, W taps of the kernel, M = (T - W) / stride + 1 results, O outputs.
//
// Allocates: forward y; input_gradient dx. If a stride has fewer than kLeastInputs values (the
// waveform itself), as workspace copies of the windows [M, W I] and of the weight, with rows padded
// to whole vectors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sotto::kernels {

struct Convolution {
  struct Options {
    int64_t size = 3;
    int64_t stride = 2;
  };

  // Values per stride below which products of views are too slow.
  static constexpr int64_t kLeastInputs = 16;

  // Returns the number of results of `frames`; 0 if there are fewer frames than taps.
  static int64_t num_results(int64_t frames, const Options& options);

  // Returns y [M, O] of x [T, I]; weight [O, W I], of x's type, holds the inputs of the first tap,
  // then of the second; bias [O] fp32 or of x's type; null: none.
  static at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor* bias,
                            const Options& options);

  // Writes the result of forward() into `y`.
  static void forward_into(at::Tensor& y, const at::Tensor& x, const at::Tensor& weight,
                           const at::Tensor* bias, const Options& options);

  // Returns dx [num_frames, I] of dy [M, O].
  static at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                   int64_t num_frames, const Options& options);

  // grad_weight [O, W I] fp32 += the weight gradient for dy [M, O] and x [T, I].
  static void accumulate(at::Tensor& grad_weight, const at::Tensor& dy, const at::Tensor& x,
                         const Options& options);
};

}  // namespace sotto::kernels
