// A dense layer: y = x weight^T + bias, or without the bias, or with a bias of some columns only. N
// rows, I inputs, O outputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "sotto/nn/parameters.h"

namespace sotto::nn {

struct LinearOptions {
  int64_t inputs = 0;
  int64_t outputs = 0;
  // Standard deviation of initial weights; 0 stands for 1 / sqrt(inputs).
  double deviation = 0.0;
  bool has_bias = true;
  // Columns of y without a bias, such as keys beside queries and values: from the first to before
  // the last. The bias has the values of the others, without a gap.
  int64_t unbiased_begin = 0;
  int64_t unbiased_end = 0;

  int64_t num_biases() const { return outputs - (unbiased_end - unbiased_begin); }
};

class Linear {
 public:
  Linear(ParameterStore& store, const std::string& name, const LinearOptions& options);

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
  bool has_gap() const { return bias_ != nullptr && options_.num_biases() < options_.outputs; }
  // Returns the bias with zeros in the gap, [O] fp32 in the workspace.
  at::Tensor whole_bias() const;
  // Adds the sums of all columns [O], without those of the gap, to the gradient of the bias.
  void accumulate_bias(const at::Tensor& sums) const;

  LinearOptions options_;
  // Owned by the store, which outlives its layers.
  Parameter& weight_;  // [O, I]
  Parameter* bias_;    // [O], or the columns outside of the gap; null: none
};

}  // namespace sotto::nn
