#include "sotto/nn/blocks/convolution_module.h"

#include <cmath>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/kernels/convolution/depthwise_convolution.h"
#include "sotto/kernels/elementwise/activation.h"
#include "sotto/kernels/elementwise/glu.h"
#include "sotto/kernels/elementwise/residual_add.h"

namespace sotto::nn {

namespace {

using kernels::DepthwiseConvolution;
using kernels::Glu;
using kernels::Silu;
using ModuleTensors = LayerTape::Tensors;

ConvolutionModuleOptions checked_options(const ConvolutionModuleOptions& options,
                                         const std::string& name) {
  if (options.kernel > 0 && options.kernel % 2 == 1) return options;
  throw ConfigError(
      {.attempted = fmt::format("setting up the convolution module '{}'", name),
       .found = fmt::format("a kernel of {} frames", options.kernel),
       .expected = "an odd number: as many frames before a frame as after it",
       .hint = fmt::format("set the kernel to {}", options.kernel > 0 ? options.kernel + 1 : 31)});
}

ParameterSpec depthwise_weight_spec(const std::string& name,
                                    const ConvolutionModuleOptions& options) {
  const double default_deviation = 1.0 / std::sqrt(static_cast<double>(options.kernel));
  return {.name = name,
          .shape = {options.width, options.kernel},
          .deviation = options.deviation > 0.0 ? options.deviation : default_deviation};
}

InnerNormOptions inner_norm_options(const ConvolutionModuleOptions& options) {
  return {.width = options.width,
          .kind = options.inner_norm,
          .num_groups = options.num_groups,
          .epsilon = options.norm_epsilon};
}

}  // namespace

ConvolutionModule::ConvolutionModule(ParameterStore& store, const std::string& name,
                                     const ConvolutionModuleOptions& options)
    : options_(checked_options(options, name)),
      norm_(store, name + ".norm", options.width, options.norm, options.norm_epsilon),
      expand_(store, name + ".expand", options.width, 2 * options.width, options.deviation,
              options.has_biases),
      depthwise_weight_(store.declare(depthwise_weight_spec(name + ".depthwise.weight", options))),
      depthwise_bias_(options.has_biases ? &store.declare({.name = name + ".depthwise.bias",
                                                           .shape = {options.width}})
                                         : nullptr),
      inner_norm_(store, name + ".inner_norm", inner_norm_options(options)),
      project_(store, name + ".project", options.width, options.width, options.result_deviation,
               options.has_biases) {}

const ModuleTensors& ConvolutionModule::normed(const PartInput& x, LayerTape& tape) const {
  return tape.get(slot(kNorm), [&] { return norm_.forward(x()); });
}

const at::Tensor& ConvolutionModule::expanded(const PartInput& x, LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor result = expand_.forward(normed(x, tape).front());
    tape.settle(slot(kNorm));
    return ModuleTensors{std::move(result)};
  };
  return tape.get(slot(kExpanded), compute).front();
}

const at::Tensor& ConvolutionModule::gated(const PartInput& x, LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor result = Glu::forward(expanded(x, tape));
    tape.settle(slot(kExpanded));
    return ModuleTensors{std::move(result)};
  };
  return tape.get(slot(kGated), compute).front();
}

const at::Tensor& ConvolutionModule::depthwise(const PartInput& x, const Context& context,
                                               LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor result = DepthwiseConvolution::forward(
        gated(x, tape),
        {.weight = depthwise_weight_.value,
         .bias = depthwise_bias_ == nullptr ? nullptr : &depthwise_bias_->value},
        context.packing);
    tape.settle(slot(kGated));
    return ModuleTensors{std::move(result)};
  };
  return tape.get(slot(kDepthwise), compute).front();
}

const ModuleTensors& ConvolutionModule::inner_normed(const PartInput& x, const Context& context,
                                                     LayerTape& tape) const {
  return tape.get(slot(kInnerNorm), [&] {
    const at::Tensor& before = depthwise(x, context, tape);
    ModuleTensors result;
    if (inner_norm_.has_statistics()) {
      const ModuleTensors& statistics =
          tape.get(slot(kStatistics), [&] { return inner_norm_.statistics(before, context); });
      result = inner_norm_.forward(before, statistics, context.packing);
    } else {
      result = inner_norm_.forward(before, {}, context.packing);
    }
    tape.settle(slot(kDepthwise));
    return result;
  });
}

const at::Tensor& ConvolutionModule::activated(const PartInput& x, const Context& context,
                                               LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor result = Silu::forward(inner_normed(x, context, tape).front());
    tape.settle(slot(kInnerNorm));
    return ModuleTensors{std::move(result)};
  };
  return tape.get(slot(kActivated), compute).front();
}

const at::Tensor& ConvolutionModule::result(const PartInput& x, const Context& context,
                                            LayerTape& tape) const {
  const auto compute = [&] {
    at::Tensor y = project_.forward(activated(x, context, tape));
    tape.settle(slot(kActivated));
    kernels::ResidualAdd::accumulate_dropped(
        y, x(), context.packing, context.dropout(options_.dropout_index, options_.dropout));
    return ModuleTensors{std::move(y)};
  };
  return tape.get(slot(kResult), compute).front();
}

// Each tensor is freed after its last use.
at::Tensor ConvolutionModule::backward(const at::Tensor& dy, const PartInput& x,
                                       const Context& context, LayerTape& tape) const {
  const at::Tensor& activation = activated(x, context, tape);
  at::Tensor d_result =
      dropped_gradient(dy, context, context.dropout(options_.dropout_index, options_.dropout));
  project_.accumulate(d_result, activation);
  tape.release(slot(kActivated));
  at::Tensor d_activated = project_.input_gradient(d_result);  // [N, D]
  d_result.reset();
  at::Tensor d_gated = depthwise_backward(std::move(d_activated), x, context, tape);

  at::Tensor d_expanded = Glu::backward(d_gated, expanded(x, tape));  // [N, 2 D]
  d_gated.reset();
  tape.release(slot(kExpanded));
  expand_.accumulate(d_expanded, normed(x, tape).front());
  at::Tensor d_normed = expand_.input_gradient(d_expanded);
  d_expanded.reset();
  at::Tensor dx = norm_.backward(d_normed, x(), normed(x, tape), &dy);
  tape.release(slot(kNorm));
  return dx;
}

at::Tensor ConvolutionModule::depthwise_backward(at::Tensor d_activated, const PartInput& x,
                                                 const Context& context, LayerTape& tape) const {
  Silu::backward(d_activated, inner_normed(x, context, tape).front());
  ModuleTensors inner = tape.take(slot(kInnerNorm));
  inner.front().reset();
  const at::Tensor d_depthwise =
      inner_norm_.backward(d_activated, depthwise(x, context, tape), inner, context.packing);
  d_activated.reset();
  inner.clear();
  tape.release(slot(kStatistics));
  tape.release(slot(kDepthwise));

  GradientSum d_weight(depthwise_weight_);
  DepthwiseConvolution::accumulate(
      {.weight = d_weight.sum(),
       .bias = depthwise_bias_ == nullptr ? nullptr : &depthwise_bias_->gradient},
      {.dy = d_depthwise, .x = gated(x, tape)}, context.packing);
  d_weight.add();
  tape.release(slot(kGated));
  return DepthwiseConvolution::input_gradient(d_depthwise, depthwise_weight_.value,
                                              context.packing);
}

}  // namespace sotto::nn
