// Frames and features hidden from the encoder, in place (SpecAugment in the encoder's input, as
// wav2vec2 has it). N frames of a pack with B utterances, D width, R hidden frames.
//
// Allocates: accumulate as workspace fp32 [kSlabs, D].
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct FrameMask {
  // Parts of the hidden rows that are summed by themselves: the same for any R, which follows from
  // random draws.
  static constexpr int64_t kSlabs = 32;

  // x [N, D] = value [D] fp32 in the rows [R] (int32, each once).
  static void fill_rows(at::Tensor& x, const at::Tensor& rows, const at::Tensor& value);
  // dy [N, D] = 0 there, as the rows were not read.
  static void zero_rows(at::Tensor& dy, const at::Tensor& rows);
  // grad_value [D] fp32 += the sum of dy's rows.
  static void accumulate(at::Tensor& grad_value, const at::Tensor& dy, const at::Tensor& rows);

  // x [N, D] = 0 where hidden [B, D] (bytes) is not 0 for the frame's utterance. Its own backward.
  static void zero_columns(at::Tensor& x, const Packing& packing, const at::Tensor& hidden);
};

}  // namespace sotto::kernels
