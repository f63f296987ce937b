// The output of an encoder trained with CTC: a norm (after pre-norm blocks), a projection to the
// vocabulary, the loss. N frames, D width, V entries.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/loss/ctc.h"
#include "sotto/nn/context.h"
#include "sotto/nn/layers/linear.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct CtcHeadOptions {
  int64_t width = 256;
  int64_t vocabulary = 32;
  int64_t blank = 0;
  NormKind norm = NormKind::kLayer;
  // 0: the default of the kind.
  double norm_epsilon = 0.0;
  // Post-norm blocks end with their own norm.
  bool has_norm = true;
  // Dropout on the input of the projection.
  double dropout = 0.0;
  // Standard deviation of the initial projection weights; 0: derived from the width.
  double deviation = 0.0;
};

class CtcHead {
 public:
  CtcHead(ParameterStore& store, const std::string& name, const CtcHeadOptions& options);

  // Returns logits [N, V] for x [N, D], for decoding.
  at::Tensor logits(const at::Tensor& x) const;

  // Target labels, and the weight of each utterance in the step's loss.
  struct Objective {
    const kernels::Labels& labels;
    std::span<const float> weights;
  };

  // Returns the loss of each utterance of x [N, D]. Also computes the gradient of their weighted
  // sum.
  kernels::Ctc::Result forward(at::Tensor x, const Objective& objective, const Context& context,
                               Tape& tape) const;

  // Returns dx [N, D] of that weighted sum; accumulates into the parameters' gradients and closes
  // the layer's tape.
  at::Tensor backward(const Context& context, Tape& tape) const;

  int64_t blank() const { return options_.blank; }

 private:
  const LayerTape::Tensors& normed(LayerTape& tape) const;
  // Returns the input of the projection [N, D].
  const at::Tensor& dropped(const Context& context, LayerTape& tape) const;

  CtcHeadOptions options_;
  std::optional<Norm> norm_;
  Linear linear_;
};

}  // namespace sotto::nn
