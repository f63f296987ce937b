#include "sotto/nn/layers/positional_convolution.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <utility>

#include "sotto/device/memory_scope.h"
#include "sotto/kernels/convolution/grouped_convolution.h"
#include "sotto/kernels/elementwise/column_sum.h"
#include "sotto/kernels/elementwise/residual_add.h"
#include "sotto/kernels/norm/weight_norm.h"

namespace sotto::nn {

namespace {

using device::Category;
using device::CategoryScope;
using device::MomentScope;
using device::Phase;
using kernels::ColumnSum;
using kernels::GroupedConvolution;
using kernels::ResidualAdd;
using kernels::WeightNorm;

enum Slot : size_t { kInput, kProduct, kSum, kNormed, kNumSlots };

constexpr std::array<SlotSpec, kNumSlots> kSlots = {{
    {.name = "input"},
    {.name = "product", .dropped_from = Tier::kFfn},
    {.name = "sum", .dropped_from = Tier::kNorms},
    {.name = "normed", .dropped_from = Tier::kNorms},
}};

// Initial value of Hugging Face: 2 / sqrt(taps times inputs).
double direction_deviation(const PositionalConvolutionOptions& options) {
  return 2.0 / std::sqrt(static_cast<double>(options.taps * options.width));
}

// Returns the expected norm of the initial direction.
double first_length(const PositionalConvolutionOptions& options) {
  const int64_t values = options.width * (options.width / options.groups);
  return direction_deviation(options) * std::sqrt(static_cast<double>(values));
}

}  // namespace

PositionalConvolution::PositionalConvolution(ParameterStore& store, const std::string& name,
                                             const PositionalConvolutionOptions& options)
    : options_(options),
      direction_(
          store.declare({.name = name + ".direction",
                         .shape = {options.width, options.width / options.groups, options.taps},
                         .deviation = direction_deviation(options)})),
      length_(store.declare(
          {.name = name + ".length", .shape = {options.taps}, .mean = first_length(options)})),
      bias_(store.declare({.name = name + ".bias", .shape = {options.width}})),
      norm_(options.has_norm
                ? std::optional<Norm>(std::in_place, store, name + ".norm", options.width,
                                      NormKind::kLayer, options.norm_epsilon)
                : std::nullopt) {}

at::Tensor PositionalConvolution::forward(at::Tensor x, const Context& context, Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape& tape = tapes.open(context.layer, kSlots, context.has_backward());
  tape.put(kInput, {std::move(x)});
  at::Tensor y = sum(context, tape);
  if (norm_) {
    y = tape.get(kNormed, [&] { return norm_->forward(sum(context, tape)); }).front();
    tape.settle(kNormed);
    tape.settle(kSum);
  } else {
    tape.release(kSum);
  }
  if (!context.has_backward()) tapes.close(context.layer);
  return y;
}

at::Tensor PositionalConvolution::backward(at::Tensor dy, const Context& context,
                                           Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kBackward));
  LayerTape& tape = tapes.layer(context.layer);
  tape.begin_backward();
  if (norm_) {
    const at::Tensor& before = sum(context, tape);
    const LayerTape::Tensors& result = tape.get(kNormed, [&] { return norm_->forward(before); });
    dy = norm_->backward(dy, before, result);
    tape.release(kNormed);
    tape.release(kSum);
  }
  const Weight weight = weight_for(dy);
  at::Tensor d_product = at::empty_like(dy);
  if (!d_product.is_meta()) d_product.copy_(dy);
  activation_backward(options_.activation, d_product, product(context, tape));
  tape.release(kProduct);
  if (direction_.spec.trains) accumulate(d_product, tape.kept(kInput).front(), context, weight);
  tape.release(kInput);
  at::Tensor dx = GroupedConvolution::input_gradient(d_product, weight.values, context.packing, {});
  ResidualAdd::accumulate(dx, dy);
  tapes.close(context.layer);
  return dx;
}

PositionalConvolution::Weight PositionalConvolution::weight_for(const at::Tensor& x) const {
  const CategoryScope category(Category::kWorkspace);
  WeightNorm::Result result = WeightNorm::forward(direction_.value, length_.value, x.scalar_type());
  return {.values = std::move(result.w), .length = std::move(result.norm)};
}

const at::Tensor& PositionalConvolution::product(const Context& context, LayerTape& tape) const {
  const auto compute = [&] {
    const at::Tensor& x = tape.kept(kInput).front();
    const Weight weight = weight_for(x);
    at::Tensor result = GroupedConvolution::forward(x, weight.values, context.packing, {});
    // Both have one type: ATen would copy operands of two types.
    const at::Tensor bias = in_type_of(bias_.value, result);
    if (!result.is_meta()) result.add_(bias);
    return LayerTape::Tensors{std::move(result)};
  };
  return tape.get(kProduct, compute).front();
}

const at::Tensor& PositionalConvolution::sum(const Context& context, LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor result = activate(options_.activation, product(context, tape));
    tape.settle(kProduct);
    ResidualAdd::accumulate(result, tape.kept(kInput).front());
    return LayerTape::Tensors{std::move(result)};
  };
  return tape.get(kSum, compute).front();
}

void PositionalConvolution::accumulate(const at::Tensor& d_product, const at::Tensor& x,
                                       const Context& context, const Weight& weight) const {
  ColumnSum::accumulate(bias_.gradient, d_product);
  at::Tensor d_weight;
  {
    const CategoryScope category(Category::kWorkspace);
    d_weight =
        at::empty(direction_.gradient.sizes(), direction_.gradient.options().dtype(at::kFloat));
    if (!d_weight.is_meta()) d_weight.zero_();
  }
  GroupedConvolution::accumulate(d_weight, {.dy = d_product, .x = x}, context.packing, {});
  GradientSum d_direction(direction_);
  WeightNorm::backward(
      {.dw = d_weight, .v = direction_.value, .g = length_.value, .norm = weight.length},
      {.v = d_direction.sum(), .g = length_.gradient});
  d_direction.add();
}

}  // namespace sotto::nn
