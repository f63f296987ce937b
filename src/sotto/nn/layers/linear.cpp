#include "sotto/nn/layers/linear.h"

#include <ATen/ATen.h>

#include <cmath>

#include "sotto/kernels/base/kernel.h"
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

Linear::Linear(ParameterStore& store, const std::string& name, const LinearOptions& options)
    : options_(options),
      weight_(
          store.declare({.name = name + ".weight",
                         .shape = {options.outputs, options.inputs},
                         .deviation = deviation_or_default(options.deviation, options.inputs)})),
      bias_(options.has_bias
                ? &store.declare({.name = name + ".bias", .shape = {options.num_biases()}})
                : nullptr) {
  SOTTO_ASSERT(
      options.unbiased_begin <= options.unbiased_end && options.unbiased_end <= options.outputs,
      "columns {} to {} of {} without a bias", options.unbiased_begin, options.unbiased_end,
      options.outputs);
}

Linear::Linear(ParameterStore& store, const std::string& name, int64_t inputs, int64_t outputs,
               double deviation, bool has_bias)
    : Linear(store, name,
             {.inputs = inputs, .outputs = outputs, .deviation = deviation, .has_bias = has_bias}) {
}

at::Tensor Linear::whole_bias() const {
  const at::Tensor& bias = bias_->value;
  at::Tensor whole = kernels::make_workspace({options_.outputs}, bias.options());
  if (kernels::is_dry(whole)) return whole;
  whole.zero_();
  const int64_t before = options_.unbiased_begin;
  const int64_t after = options_.outputs - options_.unbiased_end;
  whole.narrow(0, 0, before).copy_(bias.narrow(0, 0, before));
  whole.narrow(0, options_.unbiased_end, after).copy_(bias.narrow(0, before, after));
  return whole;
}

void Linear::accumulate_bias(const at::Tensor& sums) const {
  if (kernels::is_dry(sums)) return;
  const int64_t before = options_.unbiased_begin;
  const int64_t after = options_.outputs - options_.unbiased_end;
  at::Tensor gradient = bias_->gradient;
  gradient.narrow(0, 0, before).add_(sums.narrow(0, 0, before));
  gradient.narrow(0, before, after).add_(sums.narrow(0, options_.unbiased_end, after));
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  const at::Tensor weight = in_type_of(weight_.value, x);
  const at::Tensor whole = has_gap() ? whole_bias() : at::Tensor();
  const at::Tensor* bias = bias_ == nullptr ? nullptr : &bias_->value;
  return Gemm::multiply(
      {.a = x, .b = weight, .transpose_b = true, .bias = has_gap() ? &whole : bias});
}

void Linear::accumulate(const at::Tensor& dy, const at::Tensor& x) const {
  Gemm::accumulate(weight_.gradient, {.a = dy, .b = x, .transpose_a = true});
  if (bias_ == nullptr) return;
  if (!has_gap()) return ColumnSum::accumulate(bias_->gradient, dy);
  at::Tensor sums = kernels::make_workspace({options_.outputs}, bias_->value.options());
  if (!kernels::is_dry(sums)) sums.zero_();
  ColumnSum::accumulate(sums, dy);
  accumulate_bias(sums);
}

at::Tensor Linear::input_gradient(const at::Tensor& dy) const {
  const at::Tensor weight = in_type_of(weight_.value, dy);
  return Gemm::multiply({.a = dy, .b = weight});
}

}  // namespace sotto::nn
