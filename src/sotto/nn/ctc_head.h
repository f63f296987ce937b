// The end of an encoder that is trained with CTC: a norm (behind pre-norm blocks), a product with
// the vocabulary, the loss. N frames, D width, V entries.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/loss/ctc.h"
#include "sotto/nn/context.h"
#include "sotto/nn/linear.h"
#include "sotto/nn/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct CtcHeadOptions {
  int64_t width = 256;
  int64_t vocabulary = 32;
  int64_t blank = 0;
  NormKind norm = NormKind::kLayer;
  // 0: the kind's usual one.
  double norm_epsilon = 0.0;
  // Post-norm blocks end with a norm of their own.
  bool has_norm = true;
  // Of what the product sees.
  double dropout = 0.0;
  // The product's weights begin with this deviation; 0: by the width.
  double deviation = 0.0;
};

class CtcHead {
 public:
  CtcHead(ParameterStore& store, const std::string& name, const CtcHeadOptions& options);

  // Logits [N, V] of x [N, D]: for decoding.
  at::Tensor logits(const at::Tensor& x) const;

  // What is to be said, and how much each utterance counts in the step's loss.
  struct Objective {
    const kernels::Labels& labels;
    std::span<const float> weights;
  };

  // The loss of each utterance of x [N, D]. The gradient of their weighted sum is formed here.
  kernels::Ctc::Result forward(at::Tensor x, const Objective& objective, const Context& context,
                               Tape& tape) const;

  // dx [N, D] of that weighted sum; adds to the parameters' gradients and closes the layer's tape.
  at::Tensor backward(const Context& context, Tape& tape) const;

  int64_t blank() const { return options_.blank; }

 private:
  const LayerTape::Tensors& normed(LayerTape& tape) const;
  // What the product sees [N, D].
  const at::Tensor& dropped(const Context& context, LayerTape& tape) const;

  CtcHeadOptions options_;
  std::optional<Norm> norm_;
  Linear linear_;
};

}  // namespace sotto::nn
