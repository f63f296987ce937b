// Projects features to the width of the encoder: a norm, a product, dropout. N frames, C features,
// D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "sotto/nn/context.h"
#include "sotto/nn/layers/linear.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct FeatureProjectionOptions {
  int64_t features = 512;
  int64_t width = 768;
  double dropout = 0.0;
  double norm_epsilon = 1e-5;
};

class FeatureProjection {
 public:
  FeatureProjection(ParameterStore& store, const std::string& name,
                    const FeatureProjectionOptions& options);

  // Returns y [N, D] for x [N, C].
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const;

  // Returns dx [N, C] for dy [N, D], which is overwritten; undefined where not requested.
  // Accumulates into the parameters' gradients and closes the layer's tape.
  at::Tensor backward(at::Tensor dy, const Context& context, Tape& tape, bool needs_input) const;

 private:
  const LayerTape::Tensors& normed(LayerTape& tape) const;

  FeatureProjectionOptions options_;
  Norm norm_;
  Linear linear_;
};

}  // namespace sotto::nn
