#include "sotto/optim/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/device/memory_scope.h"
#include "sotto/kernels/adamw.h"
#include "sotto/kernels/moment_map.h"
#include "sotto/kernels/square_sum.h"

namespace sotto::optim {

namespace {

using kernels::AdamW;
using kernels::kMomentBlock;
using kernels::num_moment_blocks;
using kernels::SquareSum;

at::Tensor make_zeros(int64_t size, at::ScalarType type, const at::Device& device) {
  const device::CategoryScope category(device::Category::kOptimizer);
  at::Tensor result = at::empty({size}, at::TensorOptions().dtype(type).device(device));
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
  visitor.value("epsilon", epsilon, "added to the root of the second moment", {.above = 0});
  visitor.value("weight_decay", weight_decay, "of matrices, decoupled", {.min = 0});
  visitor.value("clip_norm", clip_norm, "largest norm of the gradients; 0: not clipped",
                {.min = 0});
  visitor.value("rate_factors", rate_factors,
                "parameters with a rate of their own, by the beginning of the name: head.=10");
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
                     const StateForm& form)
    : store_(store), options_(options) {
  SOTTO_ASSERT(!store.ranges().empty(), "an optimizer without parameters");
  for (const std::string& text : options.rate_factors)
    rate_factors_.push_back(RateFactor::parse(text));
  check_factors(rate_factors_, store);
  square_sum_ = make_zeros(1, at::kDouble, store.ranges().front().values.device());
  for (const nn::ParameterRange& range : store.ranges()) {
    const int64_t size = range.values.numel();
    const at::Device device = range.values.device();
    Flat& flat = flats_.emplace_back();
    if (!range.trains) continue;
    const bool has_codes = range.is_large && form.moments == Moments::k8Bit;
    SOTTO_ASSERT(!range.is_large || range.alignment() % kMomentBlock == 0,
                 "blocks of moments would have values of two parameters");
    for (at::Tensor* moment : {&flat.first_moment, &flat.second_moment})
      *moment = make_zeros(size, has_codes ? at::kByte : at::kFloat, device);
    if (has_codes) {
      for (at::Tensor* scales : {&flat.first_scales, &flat.second_scales})
        *scales = make_zeros(num_moment_blocks(size), at::kFloat, device);
    }
    if (range.values.scalar_type() != at::kFloat && form.remainder_bits > 0)
      flat.remainder = make_zeros(size, form.remainder_bits == 8 ? at::kByte : at::kShort, device);
  }
  pieces_ = make_pieces();
}

void Optimizer::measure_gradients() {
  if (!square_sum_.is_meta()) square_sum_.zero_();
  for (const nn::ParameterRange& range : store_.ranges()) {
    if (range.trains) SquareSum::accumulate(square_sum_, range.gradients);
  }
}

void Optimizer::step(const Update& update) {
  for (const Piece& piece : pieces_without(update.left_out)) update_piece(piece, update);
}

void Optimizer::update_piece(const Piece& piece, const Update& update) {
  const nn::ParameterRange& range = store_.ranges()[piece.range];
  const Flat& flat = flats_[piece.range];
  const auto part = [&](const at::Tensor& whole, int64_t values_each = 1) {
    if (!whole.defined()) return at::Tensor();
    return whole.narrow(0, piece.first / values_each,
                        (piece.count + values_each - 1) / values_each);
  };
  const auto pointer = [](at::Tensor& tensor) { return tensor.defined() ? &tensor : nullptr; };
  at::Tensor values = part(range.values), remainder = part(flat.remainder);
  at::Tensor first_moment = part(flat.first_moment), second_moment = part(flat.second_moment);
  at::Tensor first_scales = part(flat.first_scales, kMomentBlock);
  at::Tensor second_scales = part(flat.second_scales, kMomentBlock);
  AdamW::update({.weights = values,
                 .remainder = pointer(remainder),
                 .gradients = part(range.gradients),
                 .first_moment = first_moment,
                 .second_moment = second_moment,
                 .first_scales = pointer(first_scales),
                 .second_scales = pointer(second_scales),
                 .first_value = range.is_large ? piece.first : 0},  // fp32 is not rounded
                {.rate = rate(update) * piece.rate_factor,
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
                              .layer = piece.range}},
                square_sum_);
}

std::vector<Optimizer::Piece> Optimizer::make_pieces() const {
  std::vector<Piece> pieces;
  for (const nn::Parameter& parameter : store_.parameters()) {
    std::optional<Piece> place = place_of(parameter);
    if (!place) continue;
    if (const RateFactor* factor = factor_of(parameter.spec.name, rate_factors_))
      place->rate_factor = factor->factor;
    place->count = store_.ranges()[place->range].spaced(place->count);
    pieces.push_back(*place);
  }
  std::ranges::stable_sort(pieces, {}, [](const Piece& piece) { return piece.range; });
  std::vector<Piece> joined;
  for (const Piece& piece : pieces) {
    const bool goes_on = !joined.empty() && joined.back().range == piece.range &&
                         joined.back().first + joined.back().count == piece.first &&
                         joined.back().rate_factor == piece.rate_factor;
    if (goes_on) {
      joined.back().count += piece.count;
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
    const std::optional<Piece> hole = is_left_out ? place_of(parameter) : std::nullopt;
    if (!hole) continue;
    const auto around = std::ranges::find_if(pieces, [&](const Piece& piece) {
      return piece.range == hole->range && piece.first <= hole->first &&
             hole->first < piece.first + piece.count;
    });
    const int64_t end = hole->first + store_.ranges()[hole->range].spaced(hole->count);
    Piece behind = *around;
    behind.first = end;
    behind.count = around->first + around->count - end;
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
    const auto blocks = [&](const at::Tensor& scales) {
      if (!scales.defined()) return at::Tensor();
      return scales.narrow(0, place->first / kMomentBlock, num_moment_blocks(place->count));
    };
    const Flat& flat = flats_[place->range];
    states.push_back({.name = parameter.spec.name,
                      .first_moment = view(flat.first_moment),
                      .second_moment = view(flat.second_moment),
                      .first_scales = blocks(flat.first_scales),
                      .second_scales = blocks(flat.second_scales),
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
