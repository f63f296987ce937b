// A dense layer: y = x weight^T + bias, or without the bias. N rows, I inputs, O outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "sotto/nn/parameters.h"

namespace sotto::nn {

class Linear {
 public:
  // Weights are initialised normally with the given deviation; 0 stands for 1 / sqrt(inputs).
  Linear(ParameterStore& store, const std::string& name, int64_t inputs, int64_t outputs,
         double deviation = 0.0, bool has_bias = true);

  // Returns y [N, O] for x [N, I].
  at::Tensor forward(const at::Tensor& x) const;

  // Accumulates into the gradients of weight and bias, for dy [N, O] and x [N, I] of forward.
  void accumulate(const at::Tensor& dy, const at::Tensor& x) const;

  // Returns dx [N, I] for dy [N, O].
  at::Tensor input_gradient(const at::Tensor& dy) const;

 private:
  // Owned by the store, which outlives its layers.
  Parameter& weight_;  // [O, I]
  Parameter* bias_;    // [O]; null: none
};

}  // namespace sotto::nn
