#include "sotto/optim/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
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
    if (!range.trains) continue;
    flat.first_moment = make_zeros(size, at::kFloat, device);
    flat.second_moment = make_zeros(size, at::kFloat, device);
    if (range.values.scalar_type() != at::kFloat)
      flat.remainder = make_zeros(size, at::kShort, device);
  }
}

void Optimizer::measure_gradients() {
  if (!square_sum_.is_meta()) square_sum_.zero_();
  for (const nn::ParameterRange& range : store_.ranges()) {
    if (range.trains) SquareSum::accumulate(square_sum_, range.gradients);
  }
}

void Optimizer::step(const Update& update) {
  for (const Piece& piece : pieces_without(update.left_out)) {
    const nn::ParameterRange& range = store_.ranges()[piece.range];
    const Flat& flat = flats_[piece.range];
    const auto part = [&](const at::Tensor& whole) {
      return whole.defined() ? whole.narrow(0, piece.first, piece.count) : at::Tensor();
    };
    at::Tensor values = part(range.values), remainder = part(flat.remainder);
    at::Tensor first_moment = part(flat.first_moment), second_moment = part(flat.second_moment);
    AdamW::update({.weights = values,
                   .remainder = remainder.defined() ? &remainder : nullptr,
                   .gradients = part(range.gradients),
                   .first_moment = first_moment,
                   .second_moment = second_moment},
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

std::vector<Optimizer::Piece> Optimizer::pieces_without(
    const std::vector<std::string>& left_out) const {
  std::vector<Piece> pieces;
  for (size_t range = 0; range < flats_.size(); ++range) {
    if (store_.ranges()[range].trains)
      pieces.push_back({.range = range, .count = store_.ranges()[range].values.numel()});
  }
  if (left_out.empty()) return pieces;
  // Parameters are declared, and lie in their ranges, layer by layer: what is left out cuts few
  // pieces.
  for (const nn::Parameter& parameter : store_.parameters()) {
    const bool is_left_out = std::ranges::any_of(left_out, [&](const std::string& prefix) {
      return parameter.spec.name.starts_with(prefix);
    });
    const std::optional<Piece> hole = is_left_out ? place_of(parameter) : std::nullopt;
    if (!hole) continue;
    const auto around = std::ranges::find_if(pieces, [&](const Piece& piece) {
      return piece.range == hole->range && piece.first <= hole->first &&
             hole->first < piece.first + piece.count;
    });
    // With the space behind it, up to the next parameter.
    constexpr int64_t kStep = nn::ParameterStore::kAlignedValues;
    const int64_t end = hole->first + (hole->count + kStep - 1) / kStep * kStep;
    const Piece behind{
        .range = hole->range, .first = end, .count = around->first + around->count - end};
    around->count = hole->first - around->first;
    pieces.push_back(behind);
  }
  std::erase_if(pieces, [](const Piece& piece) { return piece.count == 0; });
  return pieces;
}

std::optional<Optimizer::Piece> Optimizer::place_of(const nn::Parameter& parameter) const {
  for (size_t range = 0; range < flats_.size(); ++range) {
    const at::Tensor& values = store_.ranges()[range].values;
    if (!parameter.value.is_alias_of(values) || !store_.ranges()[range].trains) continue;
    return Piece{.range = range,
                 .first = parameter.value.storage_offset() - values.storage_offset(),
                 .count = parameter.value.numel()};
  }
  return std::nullopt;
}

double Optimizer::gradient_norm() const {
  return square_sum_.is_meta() ? 0.0 : std::sqrt(square_sum_.item<double>());
}

std::vector<Optimizer::State> Optimizer::states() const {
  std::vector<State> states;
  for (const nn::Parameter& parameter : store_.parameters()) {
    const std::optional<Piece> place = place_of(parameter);
    if (!place) continue;
    const auto view = [&](const at::Tensor& flat) {
      if (!flat.defined()) return at::Tensor();
      return flat.narrow(0, place->first, place->count).view(parameter.value.sizes());
    };
    const Flat& flat = flats_[place->range];
    states.push_back({.name = parameter.spec.name,
                      .first_moment = view(flat.first_moment),
                      .second_moment = view(flat.second_moment),
                      .remainder = view(flat.remainder)});
  }
  return states;
}

std::map<std::string, at::Tensor> Optimizer::remainders() const {
  std::map<std::string, at::Tensor> by_name;
  for (const State& state : states()) {
    if (state.remainder.defined()) by_name[state.name] = state.remainder;
  }
  return by_name;
}

}  // namespace sotto::optim
