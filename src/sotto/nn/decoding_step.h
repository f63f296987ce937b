// Decoding token by token: what a block of a decoder keeps of earlier tokens, and the rows that the
// tokens of one step see. H hypotheses, D width, R rows of the cache, M rows of an encoder's
// result.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "sotto/kernels/attention/row_attention.h"

namespace sotto::nn {

// Keys and values of one block. A token takes a row of `own` when it is decoded and keeps it:
// hypotheses that continue from the same one list the same rows.
struct BlockCache {
  at::Tensor own;   // [R, 2 D] of the tokens
  at::Tensor seen;  // [M, 2 D] of the encoder's result
};

struct DecodingStep {
  // The rows of the cache that the tokens of this step take begin here.
  int64_t first_row = 0;
  // Rows of the cache and of the encoder's result that each hypothesis sees.
  const kernels::SeenRows& own;
  const kernels::SeenRows& seen;
  // If set, a block adds what its hypotheses see of the encoder's result, [H, M] fp32.
  at::Tensor* weights = nullptr;
  // Factor of what it adds.
  double weight = 1.0;
};

}  // namespace sotto::nn
