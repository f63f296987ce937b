// The output of a language model: a norm, a projection to the vocabulary, cross-entropy, in chunks
// of rows. N rows, D width, V entries.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

#include "sotto/kernels/base/labels.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/nn/context.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

struct LmHeadOptions {
  int64_t width = 512;
  NormKind norm = NormKind::kLayer;
  kernels::CrossEntropy::Options loss = {};
};

class LmHead {
 public:
  // `weight` [V, D] of the projection: the embedding's table where the two are tied.
  LmHead(ParameterStore& store, const std::string& name, Parameter& weight,
         const LmHeadOptions& options);

  // Next token of each row, and the weight of each utterance in the step's loss.
  struct Objective {
    const kernels::Labels& targets;
    std::span<const float> weights;
  };

  // Returns the loss [B] of each utterance of x [N, D]. Also computes the gradient of their
  // weighted sum, and accumulates that of the weight.
  at::Tensor forward(at::Tensor x, const Objective& objective, const Context& context,
                     Tape& tape) const;

  // Returns dx [N, D] of that weighted sum; accumulates into the norm's gradients and closes the
  // layer's tape.
  at::Tensor backward(const Context& context, Tape& tape) const;

  // Returns the losses only.
  at::Tensor evaluate(const at::Tensor& x, const kernels::Labels& targets,
                      const kernels::Packing& packing) const;

  // Returns logits [N, V] for x [N, D], for tests and short texts.
  at::Tensor logits(const at::Tensor& x) const;

 private:
  LmHeadOptions options_;
  Parameter& weight_;  // [V, D]
  Norm norm_;
};

}  // namespace sotto::nn
