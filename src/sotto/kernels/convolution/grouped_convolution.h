// A grouped convolution over time with stride 1, zero padding at the ends of an utterance and an
// output of the same length: the positional convolution of wav2vec2. N frames of a pack, D width, G
// groups of C channels, K taps:
//
//   y[t, o] = sum over k, i of weight[o, i, k] x[t + k - K / 2, group of o * C + i]
//
// It is computed by dense products, group by group. Utterances are cut into M blocks of S frames;
// the outputs of a block [S C] are the product of the frames that it sees [(S + K - 1) C] with a
// matrix that holds the group's weights once for each of its frames, with zeros between them: (S +
// K - 1) / K times the arithmetic, in one product.
//
// Allocates: forward y; input_gradient dx; the starts of the blocks. As workspace for one group at
// a time, in the type of x: windows [R, (S + K - 1) C], the matrix [(S + K - 1) C, S C], the taps
// from which it is built [C, K + 2 (S - 1), C], a product [R, S C]; accumulate has the windows,
// blocks of dy [R, S C] and in fp32 the gradient of the matrix. R is M, or the number of windows
// that fit into max_window_bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct GroupedConvolution {
  struct Options {
    // S, frames per block; 0: default_block().
    int64_t block = 0;
    // Maximum bytes of windows at a time; at least one window is used.
    int64_t max_window_bytes = int64_t{64} << 20;
  };

  struct Ends {
    const at::Tensor& dy;  // [N, D]
    const at::Tensor& x;   // [N, D]
  };

  // Returns the largest power of two that increases the arithmetic by at most an eighth, and gives
  // the matrix no more columns than the device of weight [D, C, K] needs to run at full rate. It
  // does not depend on the pack, so that more frames never take less memory.
  static int64_t default_block(const at::Tensor& weight);

  // Returns y [N, D] of x [N, D] and weight [D, C, K], all of one type.
  static at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, const Packing& packing,
                            const Options& options);

  // Returns dx [N, D] of dy [N, D].
  static at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                   const Packing& packing, const Options& options);

  // Adds the weight's gradient to grad_weight [D, C, K] fp32.
  static void accumulate(at::Tensor& grad_weight, const Ends& ends, const Packing& packing,
                         const Options& options);
};

}  // namespace sotto::kernels
