// The norm of an encoder's result: a layer with a number and a tape of its own. N rows, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "sotto/nn/context.h"
#include "sotto/nn/layers/norm.h"
#include "sotto/nn/parameters.h"
#include "sotto/nn/tape.h"

namespace sotto::nn {

class StackNorm {
 public:
  StackNorm(ParameterStore& store, const std::string& name, int64_t width, NormKind kind,
            double epsilon = 0.0)
      : norm_(store, name, width, kind, epsilon) {}

  // Returns y [N, D] for x [N, D].
  at::Tensor forward(at::Tensor x, const Context& context, Tape& tape) const;

  // Returns dx [N, D] for dy [N, D]; accumulates into the norm's gradients and closes the layer's
  // tape.
  at::Tensor backward(const at::Tensor& dy, const Context& context, Tape& tape) const;

 private:
  Norm norm_;
};

}  // namespace sotto::nn
