// Masks frames and features of the encoder's input in place (SpecAugment, as in wav2vec2). N frames
// of a pack with B utterances, D width, R hidden frames.
//
// Allocates: accumulate as workspace fp32 [kSlabs, D].
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct FrameMask {
  // Number of parts of the hidden rows that are summed separately: the same for any R, which
  // depends on random draws.
  static constexpr int64_t kSlabs = 32;

  // x [N, D] = value [D] fp32 in the rows [R] (int32, each once).
  static void fill_rows(at::Tensor& x, const at::Tensor& rows, const at::Tensor& value);
  // dy [N, D] = 0 in the hidden rows, which were not read.
  static void zero_rows(at::Tensor& dy, const at::Tensor& rows);
  // grad_value [D] fp32 += the sum of the hidden rows of dy.
  static void accumulate(at::Tensor& grad_value, const at::Tensor& dy, const at::Tensor& rows);

  // x [N, D] = 0 where hidden [B, D] (bytes) is not 0 for the frame's utterance. It is its own
  // backward.
  static void zero_columns(at::Tensor& x, const Packing& packing, const at::Tensor& hidden);
};

}  // namespace sotto::kernels
