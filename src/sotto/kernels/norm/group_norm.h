// Group normalisation over time: each utterance separately, over all its frames and the channels of
// a group (one channel per group in wav2vec2). N frames of a pack with B utterances, D channels, G
// groups.
//
// Allocates: forward y, mean, rstd; backward dx. As workspace, in fp32: sums of pieces of 256
// frames (at most N / 256 + B of them), [pieces, D] in forward and [pieces, 2 D] in backward; in
// backward [B, 2, D] for the parameters' gradients and [B, 2 G]. A CPU needs only [B, 2, D]; all
// devices allocate the same.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct GroupNorm {
  struct Result {
    at::Tensor y;     // [N, D], type of x
    at::Tensor mean;  // [B, G] fp32
    at::Tensor rstd;  // [B, G] fp32
  };

  struct Parameters {
    const at::Tensor& gamma;  // [D] fp32
    const at::Tensor& beta;   // [D] fp32
    int64_t num_groups = 1;
    double epsilon = 1e-5;
  };

  struct BackwardInputs {
    const at::Tensor& dy;     // [N, D]
    const at::Tensor& x;      // [N, D]
    const at::Tensor& mean;   // [B, G]
    const at::Tensor& rstd;   // [B, G]
    const at::Tensor& gamma;  // [D]
  };

  struct Gradients {
    at::Tensor& gamma;  // [D] fp32, added to
    at::Tensor& beta;   // [D] fp32, added to
  };

  static Result forward(const at::Tensor& x, const Packing& packing, const Parameters& parameters);

  // Returns dx [N, D]; adds to the parameters' gradients.
  static at::Tensor backward(const BackwardInputs& in, const Packing& packing,
                             const Gradients& gradients);
};

}  // namespace sotto::kernels
