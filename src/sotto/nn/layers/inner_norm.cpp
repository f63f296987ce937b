#include "sotto/nn/layers/inner_norm.h"

#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/norm/batch_norm.h"
#include "sotto/kernels/norm/group_norm.h"
#include "sotto/kernels/norm/layer_norm.h"

namespace sotto::nn {

namespace {

using kernels::BatchNorm;
using kernels::GroupNorm;

bool is_batch_norm(InnerNormKind kind) {
  return kind == InnerNormKind::kFrozenBatch || kind == InnerNormKind::kBatch;
}

// Declares a vector that no gradient trains.
Parameter* declare_running(ParameterStore& store, const std::string& name,
                           const InnerNormOptions& options, double first_value) {
  if (!is_batch_norm(options.kind)) return nullptr;
  return &store.declare({.name = name,
                         .shape = {options.width},
                         .mean = first_value,
                         .trains = false,
                         .is_statistic = true});
}

InnerNormOptions with_default_epsilon(InnerNormOptions options, const std::string& name) {
  if (options.kind == InnerNormKind::kGroup &&
      (options.num_groups < 1 || options.width % options.num_groups != 0)) {
    throw ConfigError(
        {.attempted = fmt::format("setting up the group norm '{}'", name),
         .found = fmt::format("{} groups for {} channels", options.num_groups, options.width),
         .expected = "a number that divides the channels",
         .hint = "set the groups to 1 or to the number of channels"});
  }
  if (options.epsilon == 0.0) options.epsilon = 1e-5;
  return options;
}

}  // namespace

InnerNorm::InnerNorm(ParameterStore& store, const std::string& name,
                     const InnerNormOptions& options)
    : options_(with_default_epsilon(options, name)),
      gamma_(store.declare({.name = name + ".weight", .shape = {options.width}, .mean = 1.0})),
      beta_(store.declare({.name = name + ".bias", .shape = {options.width}})),
      running_mean_(declare_running(store, name + ".running_mean", options, 0.0)),
      running_variance_(declare_running(store, name + ".running_variance", options, 1.0)),
      averages_(options.kind == InnerNormKind::kBatch
                    ? &store.declare_averages(*running_mean_, *running_variance_)
                    : nullptr) {}

LayerTape::Tensors InnerNorm::statistics(const at::Tensor& x, const Context& context) const {
  if (!has_statistics()) return {};
  // A layer without backward is evaluated or frozen: neither changes its averages.
  if (averages_ == nullptr || !context.has_backward())
    return {running_mean_->value, running_variance_->value};
  BatchNorm::Statistics result = BatchNorm::statistics(x, &averages_->stage);
  return {std::move(result.mean), std::move(result.variance)};
}

LayerTape::Tensors InnerNorm::forward(const at::Tensor& x, const LayerTape::Tensors& statistics,
                                      const kernels::Packing& packing) const {
  const at::Tensor &gamma = gamma_.value, &beta = beta_.value;
  if (has_statistics()) {
    at::Tensor y = BatchNorm::forward(x, {.mean = statistics.at(0), .variance = statistics.at(1)},
                                      {.gamma = gamma, .beta = beta, .epsilon = options_.epsilon});
    return {std::move(y), statistics.at(0), statistics.at(1)};
  }
  if (options_.kind == InnerNormKind::kGroup) {
    GroupNorm::Result result = GroupNorm::forward(x, packing,
                                                  {.gamma = gamma,
                                                   .beta = beta,
                                                   .num_groups = options_.num_groups,
                                                   .epsilon = options_.epsilon});
    return {std::move(result.y), std::move(result.mean), std::move(result.rstd)};
  }
  kernels::LayerNorm::Result result =
      kernels::LayerNorm::forward(x, {.gamma = gamma, .beta = beta, .epsilon = options_.epsilon});
  return {std::move(result.y), std::move(result.mean), std::move(result.rstd)};
}

at::Tensor InnerNorm::backward(const at::Tensor& dy, const at::Tensor& x,
                               const LayerTape::Tensors& result,
                               const kernels::Packing& packing) const {
  const at::Tensor& gamma = gamma_.value;
  if (has_statistics()) {
    const BatchNorm::Statistics statistics{.mean = result.at(1), .variance = result.at(2)};
    return BatchNorm::backward(
        {.dy = dy, .x = x, .statistics = statistics, .gamma = gamma, .epsilon = options_.epsilon},
        {.gamma = gamma_.gradient, .beta = beta_.gradient},
        options_.kind == InnerNormKind::kBatch ? BatchNorm::Kind::kBatch
                                               : BatchNorm::Kind::kConstant);
  }
  if (options_.kind == InnerNormKind::kGroup) {
    return GroupNorm::backward(
        {.dy = dy, .x = x, .mean = result.at(1), .rstd = result.at(2), .gamma = gamma}, packing,
        {.gamma = gamma_.gradient, .beta = beta_.gradient});
  }
  return kernels::LayerNorm::backward(
      {.dy = dy, .x = x, .mean = result.at(1), .rstd = result.at(2), .gamma = gamma},
      {.gamma = gamma_.gradient, .beta = beta_.gradient});
}

}  // namespace sotto::nn
