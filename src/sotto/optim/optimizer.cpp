#include "sotto/optim/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "sotto/device/memory_scope.h"
#include "sotto/kernels/adamw.h"
#include "sotto/kernels/square_sum.h"

namespace sotto::optim {

namespace {

using kernels::AdamW;
using kernels::SquareSum;

at::Tensor make_moment(const at::Tensor& values) {
  const device::CategoryScope category(device::Category::kOptimizer);
  at::Tensor result = at::empty(values.sizes(), values.options().dtype(at::kFloat));
  if (!result.is_meta()) result.zero_();
  return result;
}

}  // namespace

void OptimizerOptions::visit(OptionVisitor& visitor) {
  visitor.group("schedule", schedule, "of the learning rate");
  visitor.value("beta1", beta1, "decay of the first moment", {.min = 0, .below = 1});
  visitor.value("beta2", beta2, "decay of the second moment", {.min = 0, .below = 1});
  visitor.value("epsilon", epsilon, "added to the root of the second moment", {.above = 0});
  visitor.value("weight_decay", weight_decay, "of matrices, decoupled", {.min = 0});
  visitor.value("clip_norm", clip_norm, "largest norm of the gradients; 0: not clipped",
                {.min = 0});
}

Optimizer::Optimizer(nn::ParameterStore& store, const OptimizerOptions& options)
    : store_(store), options_(options) {
  for (const nn::ParameterRange& range : store.ranges()) {
    moments_.push_back({.first = make_moment(range.values), .second = make_moment(range.values)});
  }
}

double Optimizer::gradient_norm() const {
  double sum = 0.0;
  for (const nn::ParameterRange& range : store_.ranges()) sum += SquareSum::of(range.gradients);
  return std::sqrt(sum);
}

double Optimizer::clip_scale(double gradient_norm) const {
  if (options_.clip_norm == 0.0 || gradient_norm <= options_.clip_norm) return 1.0;
  return options_.clip_norm / gradient_norm;
}

void Optimizer::step(const Update& update) {
  for (size_t i = 0; i < moments_.size(); ++i) {
    const nn::ParameterRange& range = store_.ranges()[i];
    at::Tensor values = range.values;
    AdamW::update({.weights = values,
                   .gradients = range.gradients,
                   .first_moment = moments_[i].first,
                   .second_moment = moments_[i].second},
                  {.rate = rate(update.step, update.total_steps),
                   .beta1 = options_.beta1,
                   .beta2 = options_.beta2,
                   .epsilon = options_.epsilon,
                   .weight_decay = range.decays ? options_.weight_decay : 0.0,
                   .step = update.step,
                   .gradient_scale = update.gradient_scale});
  }
}

std::vector<Optimizer::State> Optimizer::states() const {
  std::vector<State> states;
  for (const nn::Parameter& parameter : store_.parameters()) {
    for (size_t i = 0; i < moments_.size(); ++i) {
      const at::Tensor& values = store_.ranges()[i].values;
      if (!parameter.value.is_alias_of(values)) continue;
      const int64_t first = parameter.value.storage_offset() - values.storage_offset();
      const auto view = [&](const at::Tensor& flat) {
        return flat.narrow(0, first, parameter.value.numel()).view(parameter.value.sizes());
      };
      states.push_back({.name = parameter.spec.name,
                        .first_moment = view(moments_[i].first),
                        .second_moment = view(moments_[i].second)});
    }
  }
  return states;
}

}  // namespace sotto::optim
