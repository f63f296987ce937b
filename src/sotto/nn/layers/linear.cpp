#include "sotto/nn/layers/linear.h"

#include <cmath>

#include "sotto/kernels/elementwise/column_sum.h"
#include "sotto/kernels/product/gemm.h"

namespace sotto::nn {

using kernels::ColumnSum;
using kernels::Gemm;

namespace {

double deviation_or_default(double deviation, int64_t inputs) {
  return deviation > 0.0 ? deviation : 1.0 / std::sqrt(static_cast<double>(inputs));
}

}  // namespace

Linear::Linear(ParameterStore& store, const std::string& name, int64_t inputs, int64_t outputs,
               double deviation, bool has_bias)
    : weight_(store.declare({.name = name + ".weight",
                             .shape = {outputs, inputs},
                             .deviation = deviation_or_default(deviation, inputs)})),
      bias_(has_bias ? &store.declare({.name = name + ".bias", .shape = {outputs}}) : nullptr) {}

at::Tensor Linear::forward(const at::Tensor& x) const {
  const at::Tensor weight = in_type_of(weight_.value, x);
  return Gemm::multiply({.a = x,
                         .b = weight,
                         .transpose_b = true,
                         .bias = bias_ == nullptr ? nullptr : &bias_->value});
}

void Linear::accumulate(const at::Tensor& dy, const at::Tensor& x) const {
  Gemm::accumulate(weight_.gradient, {.a = dy, .b = x, .transpose_a = true});
  if (bias_ != nullptr) ColumnSum::accumulate(bias_->gradient, dy);
}

at::Tensor Linear::input_gradient(const at::Tensor& dy) const {
  const at::Tensor weight = in_type_of(weight_.value, dy);
  return Gemm::multiply({.a = dy, .b = weight});
}

}  // namespace sotto::nn
