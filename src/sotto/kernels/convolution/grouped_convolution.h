// A convolution over time in groups of channels with stride 1, zeros outside of an utterance and an
// output as long as it: the positions of wav2vec2. N frames of a pack, D width, G groups of C
// channels, K taps:
//
//   y[t, o] = sum over k, i of weight[o, i, k] x[t + k - K / 2, group of o * C + i]
//
// It is done by dense products, group by group. Utterances are cut into M blocks of S frames; the
// outputs of a block [S C] are the product of the frames that it sees [(S + K - 1) C] with a matrix
// that holds the group's weights once for each of its frames, zeros between them: (S + K - 1) / K
// times the arithmetic, in one product.
//
// Allocates: forward y; input_gradient dx; the starts of the blocks. As workspace for one group at
// a time, in the type of x: windows [R, (S + K - 1) C], the matrix [(S + K - 1) C, S C], the taps
// it is made of [C, K + 2 (S - 1), C], a product [R, S C]; accumulate has the windows, blocks of dy
// [R, S C] and in fp32 the gradient of the matrix. R is M or what max_window_bytes hold.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct GroupedConvolution {
  struct Options {
    // S, frames of a block; 0: default_block().
    int64_t block = 0;
    // Bound of the windows that exist at a time; one is always there.
    int64_t max_window_bytes = int64_t{64} << 20;
  };

  struct Ends {
    const at::Tensor& dy;  // [N, D]
    const at::Tensor& x;   // [N, D]
  };

  // The largest power of two that adds an eighth to the arithmetic at most, and gives the matrix no
  // more columns than the device of weight [D, C, K] needs to run at full rate. It does not depend
  // on the pack, so that more frames never take less memory.
  static int64_t default_block(const at::Tensor& weight);

  // y [N, D] of x [N, D] and weight [D, C, K], all of one type.
  static at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, const Packing& packing,
                            const Options& options);

  // dx [N, D] of dy [N, D].
  static at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                   const Packing& packing, const Options& options);

  // Adds the weight's gradient to grad_weight [D, C, K] fp32.
  static void accumulate(at::Tensor& grad_weight, const Ends& ends, const Packing& packing,
                         const Options& options);
};

}  // namespace sotto::kernels
