#include "sotto/optim/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/optimizer/adamw.h"
#include "sotto/kernels/optimizer/square_sum.h"

namespace sotto::optim {

namespace {

using kernels::AdamW;
using kernels::SquareSum;

// A much smaller epsilon would have no effect: the kernel's roots are at least 2^-50.
constexpr double kLeastEpsilon = 1e-12;

at::Tensor make_sum(const at::Device& device) {
  const device::CategoryScope category(device::Category::kOptimizer);
  at::Tensor result = at::empty({1}, at::TensorOptions().dtype(at::kDouble).device(device));
  if (!result.is_meta()) result.zero_();
  return result;
}

// Returns the longest prefix that a name begins with; nullptr: none.
const RateFactor* factor_of(const std::string& name, const std::vector<RateFactor>& factors) {
  const RateFactor* longest = nullptr;
  for (const RateFactor& factor : factors) {
    if (name.starts_with(factor.prefix) &&
        (longest == nullptr || factor.prefix.size() > longest->prefix.size()))
      longest = &factor;
  }
  return longest;
}

void check_factors(const std::vector<RateFactor>& factors, const nn::ParameterStore& store) {
  for (const RateFactor& factor : factors) {
    const bool is_used = std::ranges::any_of(store.parameters(), [&](const nn::Parameter& p) {
      return p.spec.trains && factor_of(p.spec.name, factors) == &factor;
    });
    if (is_used) continue;
    throw ConfigError(
        {.attempted = "setting the rates of parameters",
         .found = fmt::format("rate_factors: {}={}, which matches no trained parameter",
                              factor.prefix, factor.factor),
         .expected =
             fmt::format("the start of a name, such as {}", store.parameters().back().spec.name),
         .hint = "Correct the name, or remove it."});
  }
}

}  // namespace

void OptimizerOptions::visit(OptionVisitor& visitor) {
  visitor.group("schedule", schedule, "learning rate schedule");
  visitor.value("beta1", beta1, "decay of the first moment", {.min = 0, .below = 1});
  visitor.value("beta2", beta2, "decay of the second moment", {.min = 0, .below = 1});
  visitor.value("epsilon", epsilon, "added to the square root of the second moment",
                {.min = kLeastEpsilon});
  visitor.value("weight_decay", weight_decay, "decoupled weight decay, of matrices only",
                {.min = 0});
  visitor.value("clip_norm", clip_norm, "maximum norm of the gradients; 0: no clipping",
                {.min = 0});
  visitor.value("rate_factors", rate_factors,
                "factors of the learning rate by prefix of the parameter name: head.=10");
  visitor.choice("state", state, "memory that holds moments and remainders", kStateLocations);
}

void OptimizerOptions::validate() const {
  for (const std::string& text : rate_factors) RateFactor::parse(text);
}

RateFactor RateFactor::parse(const std::string& text) {
  const size_t equals = text.rfind('=');
  RateFactor result;
  if (equals != std::string::npos && equals > 0) {
    result.prefix = text.substr(0, equals);
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + equals + 1, end, result.factor);
    if (error == std::errc() && rest == end && std::isfinite(result.factor) && result.factor > 0.0)
      return result;
  }
  throw ConfigError({.attempted = "reading rate_factors",
                     .found = fmt::format("'{}'", text),
                     .expected = "the start of a parameter's name and a number above 0, as "
                                 "head.=10",
                     .hint = "To exclude a part from training, freeze it under model."});
}

Optimizer::Optimizer(nn::ParameterStore& store, const OptimizerOptions& options,
                     const StateForm& form, device::HostMemory* host, int64_t window_bytes)
    : store_(store),
      options_(options),
      state_(store.ranges(), form,
             {.location = options.state, .host = host, .window_bytes = window_bytes}) {
  for (const std::string& text : options.rate_factors)
    rate_factors_.push_back(RateFactor::parse(text));
  check_factors(rate_factors_, store);
  square_sum_ = make_sum(store.ranges().front().values.device());
  units_ = make_units();
}

void Optimizer::measure_gradients() {
  settle();
  if (!square_sum_.is_meta()) square_sum_.zero_();
  for (const nn::ParameterRange& range : store_.ranges()) {
    if (range.trains) SquareSum::accumulate(square_sum_, range.gradients);
  }
}

void Optimizer::step(const Update& update) {
  settle();
  const std::vector<Piece> pieces = pieces_without(update.left_out);
  std::vector<RangePart> parts;
  for (const Piece& piece : pieces) parts.push_back(piece.part);
  state_.for_each(parts, [&](size_t number, const RangePart& part, StateArrays& state) {
    update_part(part, pieces[number], update, state);
  });
  uncounted_ = update.left_out;
}

void Optimizer::settle() {
  if (!uncounted_) return;
  const std::vector<std::string> left_out = *std::exchange(uncounted_, std::nullopt);
  if (square_sum_.is_meta()) return;
  if (!std::isfinite(square_sum_.item<double>())) {
    ++skipped_.of_all;
  } else {
    for (const std::string& prefix : left_out) ++skipped_.of_layers[prefix];
  }
}

void Optimizer::skip_step() {
  settle();
  ++skipped_.of_all;
}

const SkippedSteps& Optimizer::skipped_steps() {
  settle();
  return skipped_;
}

void Optimizer::set_skipped_steps(SkippedSteps skipped) {
  uncounted_.reset();
  skipped_ = std::move(skipped);
}

int64_t Optimizer::num_skipped(const std::string& name) const {
  int64_t count = skipped_.of_all;
  for (const auto& [prefix, steps] : skipped_.of_layers) {
    if (name.starts_with(prefix)) count += steps;
  }
  return count;
}

void Optimizer::update_part(const RangePart& part, const Piece& piece, const Update& update,
                            StateArrays& state) {
  const nn::ParameterRange& range = store_.ranges()[part.range];
  const auto pointer = [](at::Tensor& tensor) { return tensor.defined() ? &tensor : nullptr; };
  at::Tensor values = range.values.narrow(0, part.first, part.count);
  AdamW::update({.weights = values,
                 .remainder = pointer(state.remainder),
                 .gradients = range.gradients.narrow(0, part.first, part.count),
                 .first_moment = state.first_moment,
                 .second_moment = state.second_moment,
                 .first_scales = pointer(state.first_scales),
                 .second_scales = pointer(state.second_scales),
                 .first_value = range.is_large ? part.first : 0},  // fp32 is not rounded
                {.rate = rate(update) * piece.rate_factor,
                 .beta1 = options_.beta1,
                 .beta2 = options_.beta2,
                 .epsilon = options_.epsilon,
                 .weight_decay = range.decays ? options_.weight_decay : 0.0,
                 .step = std::max(int64_t{1}, update.step - piece.num_skipped),
                 .gradient_scale = update.gradient_scale,
                 .clip_norm = options_.clip_norm,
                 .rounding = {.seed = update.seed,
                              .purpose = Purpose::kRounding,
                              .step = static_cast<uint64_t>(update.step),
                              .layer = part.range}},
                square_sum_);
}

std::vector<Optimizer::Unit> Optimizer::make_units() const {
  std::vector<Unit> units;
  for (const nn::Parameter& parameter : store_.parameters()) {
    const std::optional<RangePart> part = part_of(parameter);
    if (!part) continue;
    Unit& unit = units.emplace_back(Unit{.name = parameter.spec.name, .part = *part});
    if (const RateFactor* factor = factor_of(parameter.spec.name, rate_factors_))
      unit.rate_factor = factor->factor;
    unit.part.count = store_.ranges()[part->range].spaced(part->count);
  }
  std::ranges::stable_sort(units, {}, [](const Unit& unit) { return unit.part.range; });
  return units;
}

std::vector<Optimizer::Piece> Optimizer::pieces_without(
    const std::vector<std::string>& left_out) const {
  std::vector<Piece> pieces;
  for (const Unit& unit : units_) {
    const bool is_left_out = std::ranges::any_of(
        left_out, [&](const std::string& prefix) { return unit.name.starts_with(prefix); });
    if (is_left_out) continue;
    const Piece piece{
        .part = unit.part, .rate_factor = unit.rate_factor, .num_skipped = num_skipped(unit.name)};
    Piece* const last = pieces.empty() ? nullptr : &pieces.back();
    const bool continues = last != nullptr && last->part.range == piece.part.range &&
                           last->part.first + last->part.count == piece.part.first &&
                           last->rate_factor == piece.rate_factor &&
                           last->num_skipped == piece.num_skipped;
    if (continues) {
      last->part.count += piece.part.count;
    } else {
      pieces.push_back(piece);
    }
  }
  return pieces;
}

std::optional<RangePart> Optimizer::part_of(const nn::Parameter& parameter) const {
  for (size_t range = 0; range < store_.ranges().size(); ++range) {
    const at::Tensor& values = store_.ranges()[range].values;
    if (!parameter.value.is_alias_of(values) || !store_.ranges()[range].trains) continue;
    return RangePart{.range = range,
                     .first = parameter.value.storage_offset() - values.storage_offset(),
                     .count = parameter.value.numel()};
  }
  return std::nullopt;
}

double Optimizer::gradient_norm() {
  settle();
  return square_sum_.is_meta() ? 0.0 : std::sqrt(square_sum_.item<double>());
}

std::vector<Optimizer::State> Optimizer::states() const {
  std::vector<State> states;
  for (const nn::Parameter& parameter : store_.parameters()) {
    const std::optional<RangePart> part = part_of(parameter);
    if (!part) continue;
    State& state =
        states.emplace_back(State{.name = parameter.spec.name, .arrays = state_.view(*part)});
    for (at::Tensor* array :
         {&state.arrays.first_moment, &state.arrays.second_moment, &state.arrays.remainder}) {
      if (array->defined()) *array = array->view(parameter.value.sizes());
    }
  }
  return states;
}

std::map<std::string, at::Tensor> Optimizer::remainders() const {
  std::map<std::string, at::Tensor> by_name;
  for (const State& state : states()) {
    if (state.arrays.remainder.defined()) by_name[state.name] = state.arrays.remainder;
  }
  return by_name;
}

}  // namespace sotto::optim
