#include "sotto/optim/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/adamw.h"
#include "sotto/kernels/square_sum.h"

namespace sotto::optim {

namespace {

using kernels::AdamW;
using kernels::SquareSum;

// Far below it one would have no effect: the kernel's roots are at least 2^-50.
constexpr double kLeastEpsilon = 1e-12;

at::Tensor make_sum(const at::Device& device) {
  const device::CategoryScope category(device::Category::kOptimizer);
  at::Tensor result = at::empty({1}, at::TensorOptions().dtype(at::kDouble).device(device));
  if (!result.is_meta()) result.zero_();
  return result;
}

// The longest of the prefixes that a name begins with; nullptr: none.
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
         .found = fmt::format("rate_factors: {}={}, of which no trained parameter has "
                              "the name",
                              factor.prefix, factor.factor),
         .expected = fmt::format("the beginning of a name, such as {}",
                                 store.parameters().back().spec.name),
         .hint = "Correct the name, or leave it out."});
  }
}

}  // namespace

void OptimizerOptions::visit(OptionVisitor& visitor) {
  visitor.group("schedule", schedule, "of the learning rate");
  visitor.value("beta1", beta1, "decay of the first moment", {.min = 0, .below = 1});
  visitor.value("beta2", beta2, "decay of the second moment", {.min = 0, .below = 1});
  visitor.value("epsilon", epsilon, "added to the root of the second moment",
                {.min = kLeastEpsilon});
  visitor.value("weight_decay", weight_decay, "of matrices, decoupled", {.min = 0});
  visitor.value("clip_norm", clip_norm, "largest norm of the gradients; 0: not clipped",
                {.min = 0});
  visitor.value("rate_factors", rate_factors,
                "parameters with a rate of their own, by the beginning of the name: head.=10");
  visitor.choice("state", state, "where moments and remainders lie", kStatePlaces);
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
                     .expected = "the beginning of a parameter's name and a number above 0, as "
                                 "head.=10",
                     .hint = "To train a part not at all, freeze it in model."});
}

Optimizer::Optimizer(nn::ParameterStore& store, const OptimizerOptions& options,
                     const StateForm& form, device::HostMemory* host, int64_t window_bytes)
    : store_(store),
      options_(options),
      state_(store.ranges(), form,
             {.place = options.state, .host = host, .window_bytes = window_bytes}) {
  for (const std::string& text : options.rate_factors)
    rate_factors_.push_back(RateFactor::parse(text));
  check_factors(rate_factors_, store);
  square_sum_ = make_sum(store.ranges().front().values.device());
  pieces_ = make_pieces();
}

void Optimizer::measure_gradients() {
  if (!square_sum_.is_meta()) square_sum_.zero_();
  for (const nn::ParameterRange& range : store_.ranges()) {
    if (range.trains) SquareSum::accumulate(square_sum_, range.gradients);
  }
}

void Optimizer::step(const Update& update) {
  const std::vector<Piece> pieces = pieces_without(update.left_out);
  std::vector<RangePart> parts;
  for (const Piece& piece : pieces) parts.push_back(piece.part);
  state_.for_each(parts, [&](size_t number, const RangePart& part, StateArrays& state) {
    update_part(part, pieces[number].rate_factor, update, state);
  });
}

void Optimizer::update_part(const RangePart& part, double rate_factor, const Update& update,
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
                {.rate = rate(update) * rate_factor,
                 .beta1 = options_.beta1,
                 .beta2 = options_.beta2,
                 .epsilon = options_.epsilon,
                 .weight_decay = range.decays ? options_.weight_decay : 0.0,
                 .step = update.step,
                 .gradient_scale = update.gradient_scale,
                 .clip_norm = options_.clip_norm,
                 .rounding = {.seed = update.seed,
                              .purpose = Purpose::kRounding,
                              .step = static_cast<uint64_t>(update.step),
                              .layer = part.range}},
                square_sum_);
}

std::vector<Optimizer::Piece> Optimizer::make_pieces() const {
  std::vector<Piece> pieces;
  for (const nn::Parameter& parameter : store_.parameters()) {
    const std::optional<RangePart> place = place_of(parameter);
    if (!place) continue;
    Piece& piece = pieces.emplace_back(Piece{.part = *place});
    if (const RateFactor* factor = factor_of(parameter.spec.name, rate_factors_))
      piece.rate_factor = factor->factor;
    piece.part.count = store_.ranges()[place->range].spaced(place->count);
  }
  std::ranges::stable_sort(pieces, {}, [](const Piece& piece) { return piece.part.range; });
  std::vector<Piece> joined;
  for (const Piece& piece : pieces) {
    Piece* const last = joined.empty() ? nullptr : &joined.back();
    const bool goes_on = last != nullptr && last->part.range == piece.part.range &&
                         last->part.first + last->part.count == piece.part.first &&
                         last->rate_factor == piece.rate_factor;
    if (goes_on) {
      last->part.count += piece.part.count;
    } else {
      joined.push_back(piece);
    }
  }
  return joined;
}

std::vector<Optimizer::Piece> Optimizer::pieces_without(
    const std::vector<std::string>& left_out) const {
  std::vector<Piece> pieces = pieces_;
  if (left_out.empty()) return pieces;
  // Parameters are declared, and lie in their ranges, layer by layer: what is left out cuts few
  // pieces.
  for (const nn::Parameter& parameter : store_.parameters()) {
    const bool is_left_out = std::ranges::any_of(left_out, [&](const std::string& prefix) {
      return parameter.spec.name.starts_with(prefix);
    });
    const std::optional<RangePart> hole = is_left_out ? place_of(parameter) : std::nullopt;
    if (!hole) continue;
    const auto around = std::ranges::find_if(pieces, [&](const Piece& piece) {
      return piece.part.range == hole->range && piece.part.first <= hole->first &&
             hole->first < piece.part.first + piece.part.count;
    });
    const int64_t end = hole->first + store_.ranges()[hole->range].spaced(hole->count);
    Piece behind = *around;
    behind.part.first = end;
    behind.part.count = around->part.first + around->part.count - end;
    around->part.count = hole->first - around->part.first;
    pieces.push_back(behind);
  }
  std::erase_if(pieces, [](const Piece& piece) { return piece.part.count == 0; });
  return pieces;
}

std::optional<RangePart> Optimizer::place_of(const nn::Parameter& parameter) const {
  for (size_t range = 0; range < store_.ranges().size(); ++range) {
    const at::Tensor& values = store_.ranges()[range].values;
    if (!parameter.value.is_alias_of(values) || !store_.ranges()[range].trains) continue;
    return RangePart{.range = range,
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
    const std::optional<RangePart> place = place_of(parameter);
    if (!place) continue;
    State& state =
        states.emplace_back(State{.name = parameter.spec.name, .arrays = state_.view(*place)});
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
