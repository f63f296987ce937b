#include "sotto/optim/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/adamw.h"
#include "sotto/kernels/square_sum.h"

namespace sotto::optim {

namespace {

using kernels::AdamW;
using kernels::SquareSum;

at::Tensor make_zeros(int64_t size, at::ScalarType type, const at::Device& device) {
  const device::CategoryScope category(device::Category::kOptimizer);
  at::Tensor result = at::empty({size}, at::TensorOptions().dtype(type).device(device));
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
  SOTTO_ASSERT(!store.ranges().empty(), "an optimizer without parameters");
  square_sum_ = make_zeros(1, at::kDouble, store.ranges().front().values.device());
  for (const nn::ParameterRange& range : store.ranges()) {
    const int64_t size = range.values.numel();
    const at::Device device = range.values.device();
    Flat& flat = flats_.emplace_back();
    flat.first_moment = make_zeros(size, at::kFloat, device);
    flat.second_moment = make_zeros(size, at::kFloat, device);
    if (range.values.scalar_type() != at::kFloat)
      flat.remainder = make_zeros(size, at::kShort, device);
  }
}

void Optimizer::measure_gradients() {
  if (!square_sum_.is_meta()) square_sum_.zero_();
  for (const nn::ParameterRange& range : store_.ranges())
    SquareSum::accumulate(square_sum_, range.gradients);
}

void Optimizer::step(const Update& update) {
  for (size_t i = 0; i < flats_.size(); ++i) {
    const nn::ParameterRange& range = store_.ranges()[i];
    Flat& flat = flats_[i];
    at::Tensor values = range.values;
    AdamW::update({.weights = values,
                   .remainder = flat.remainder.defined() ? &flat.remainder : nullptr,
                   .gradients = range.gradients,
                   .first_moment = flat.first_moment,
                   .second_moment = flat.second_moment},
                  {.rate = rate(update.step, update.total_steps),
                   .beta1 = options_.beta1,
                   .beta2 = options_.beta2,
                   .epsilon = options_.epsilon,
                   .weight_decay = range.decays ? options_.weight_decay : 0.0,
                   .step = update.step,
                   .gradient_scale = update.gradient_scale,
                   .clip_norm = options_.clip_norm},
                  square_sum_);
  }
}

double Optimizer::gradient_norm() const {
  return square_sum_.is_meta() ? 0.0 : std::sqrt(square_sum_.item<double>());
}

std::vector<Optimizer::State> Optimizer::states() const {
  std::vector<State> states;
  for (const nn::Parameter& parameter : store_.parameters()) {
    for (size_t i = 0; i < flats_.size(); ++i) {
      const at::Tensor& values = store_.ranges()[i].values;
      if (!parameter.value.is_alias_of(values)) continue;
      const int64_t first = parameter.value.storage_offset() - values.storage_offset();
      const auto view = [&](const at::Tensor& flat) {
        if (!flat.defined()) return at::Tensor();
        return flat.narrow(0, first, parameter.value.numel()).view(parameter.value.sizes());
      };
      states.push_back({.name = parameter.spec.name,
                        .first_moment = view(flats_[i].first_moment),
                        .second_moment = view(flats_[i].second_moment),
                        .remainder = view(flats_[i].remainder)});
    }
  }
  return states;
}

}  // namespace sotto::optim
