#include "sotto/nn/layers/norm.h"

#include <utility>

#include "sotto/kernels/norm/layer_norm.h"
#include "sotto/kernels/norm/rms_norm.h"

namespace sotto::nn {

using kernels::LayerNorm;
using kernels::RmsNorm;

Norm::Norm(ParameterStore& store, const std::string& name, int64_t width, NormKind kind,
           double epsilon)
    : kind_(kind),
      epsilon_(epsilon > 0.0 ? epsilon : (kind == NormKind::kLayer ? 1e-5 : 1e-6)),
      gamma_(store.declare({.name = name + ".weight", .shape = {width}, .mean = 1.0})),
      beta_(kind == NormKind::kLayer ? &store.declare({.name = name + ".bias", .shape = {width}})
                                     : nullptr) {}

LayerTape::Tensors Norm::forward(const at::Tensor& x) const {
  if (kind_ == NormKind::kRms) {
    RmsNorm::Result result = RmsNorm::forward(x, gamma_.value, epsilon_);
    return {std::move(result.y), std::move(result.rstd)};
  }
  LayerNorm::Result result =
      LayerNorm::forward(x, {.gamma = gamma_.value, .beta = beta_->value, .epsilon = epsilon_});
  return {std::move(result.y), std::move(result.mean), std::move(result.rstd)};
}

at::Tensor Norm::backward(const at::Tensor& dy, const at::Tensor& x,
                          const LayerTape::Tensors& result, const at::Tensor* residual) const {
  if (kind_ == NormKind::kRms) {
    return RmsNorm::backward(
        {.dy = dy, .x = x, .rstd = result.at(1), .gamma = gamma_.value, .residual = residual},
        gamma_.gradient);
  }
  return LayerNorm::backward({.dy = dy,
                              .x = x,
                              .mean = result.at(1),
                              .rstd = result.at(2),
                              .gamma = gamma_.value,
                              .residual = residual},
                             {.gamma = gamma_.gradient, .beta = beta_->gradient});
}

}  // namespace sotto::nn
