// Counter-based dropout: whether an element is dropped is a function of the key, the utterance and
// the element's position in that utterance. The mask is never stored; backward applies it again. N
// rows (frames) of a pack, D width.
//
// Allocates: apply nothing, applied its result.
#pragma once

#include <ATen/core/Tensor.h>

#include "sotto/core/rng.h"
#include "sotto/kernels/base/cuda_array.h"
#include "sotto/kernels/base/dropout_mask.h"
#include "sotto/kernels/base/packing.h"

namespace sotto::kernels {

struct Dropout {
  struct Mask {
    RandomKey key;
    double probability = 0.0;  // of being dropped, in [0, 1); rounded to the nearest 1 / 65,536
    // Multiplies the result, as for a half step of a residual connection.
    double scale = 1.0;

    bool changes_anything() const { return dropout_threshold(probability) > 0 || scale != 1.0; }
  };

  // Replaces each element of x [N, D] by 0 or scale * x / (1 - probability). Forward and backward
  // are the same operation.
  static void apply(at::Tensor& x, const Packing& packing, const Mask& mask);

  // Returns the result of apply() in a new tensor, for a gradient that the residual connection
  // still needs.
  static at::Tensor applied(const at::Tensor& x, const Packing& packing, const Mask& mask);
};

// Dropout that another kernel applies to its own result, in the same pass.
struct Dropped {
  const Packing& packing;
  Dropout::Mask mask;

  // Returns the rule for the rows of x [N, D], which must be those of the pack.
  DropoutRule rule_for(const at::Tensor& x) const;
  // Returns the rule in the form for a CUDA source.
  CudaDropout cuda_dropout_for(const at::Tensor& x) const;
};

}  // namespace sotto::kernels
