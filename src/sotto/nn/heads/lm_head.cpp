#include "sotto/nn/heads/lm_head.h"

#include <array>
#include <optional>
#include <utility>

#include "sotto/kernels/product/gemm.h"

namespace sotto::nn {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::CrossEntropy;

enum Slot : size_t { kInput, kNormed, kGradient, kNumSlots };

constexpr std::array<SlotSpec, kNumSlots> kSlots = {{
    {.name = "input"},
    {.name = "normed", .dropped_from = Tier::kNorms},
    {.name = "gradient of the normed"},
}};

}  // namespace

LmHead::LmHead(ParameterStore& store, const std::string& name, Parameter& weight,
               const LmHeadOptions& options)
    : options_(options),
      weight_(weight),
      norm_(store, name + ".norm", options.width, options.norm) {}

at::Tensor LmHead::forward(at::Tensor x, const Objective& objective, const Context& context,
                           Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape& tape = tapes.open(context.layer, kSlots);
  tape.put(kInput, {std::move(x)});
  const at::Tensor& normed =
      tape.get(kNormed, [&] { return norm_.forward(tape.kept(kInput).front()); }).front();
  const at::Tensor weight = in_type_of(weight_.value, normed);
  std::optional<GradientSum> gradient;
  if (weight_.spec.trains) gradient.emplace(weight_);
  CrossEntropy::Result result = CrossEntropy::forward(
      {.x = normed, .weight = weight, .packing = context.packing, .targets = objective.targets},
      objective.weights, gradient ? &gradient->sum() : nullptr, options_.loss);
  if (gradient) gradient->add();
  gradient.reset();
  tape.settle(kNormed);
  tape.put(kGradient, {std::move(result.dx)});
  return std::move(result.loss);
}

at::Tensor LmHead::backward(const Context& context, Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kBackward));
  LayerTape& tape = tapes.layer(context.layer);
  tape.begin_backward();
  const at::Tensor& input = tape.kept(kInput).front();
  at::Tensor dx = norm_.backward(tape.kept(kGradient).front(), input,
                                 tape.get(kNormed, [&] { return norm_.forward(input); }));
  tapes.close(context.layer);
  return dx;
}

at::Tensor LmHead::evaluate(const at::Tensor& x, const kernels::Labels& targets,
                            const kernels::Packing& packing) const {
  const at::Tensor normed = norm_.forward(x).front();
  const at::Tensor weight = in_type_of(weight_.value, normed);
  // Evaluation measures prediction quality, so label smoothing does not apply.
  CrossEntropy::Options options = options_.loss;
  options.smoothing = 0.0;
  return CrossEntropy::evaluate(
      {.x = normed, .weight = weight, .packing = packing, .targets = targets}, options);
}

at::Tensor LmHead::logits(const at::Tensor& x) const {
  const at::Tensor normed = norm_.forward(x).front();
  const at::Tensor weight = in_type_of(weight_.value, normed);
  return kernels::Gemm::multiply({.a = normed, .b = weight, .transpose_b = true});
}

}  // namespace sotto::nn
