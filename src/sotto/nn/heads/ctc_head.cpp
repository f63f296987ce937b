#include "sotto/nn/heads/ctc_head.h"

#include <array>
#include <utility>

namespace sotto::nn {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::Ctc;
using kernels::Dropout;

enum Slot : size_t { kInput, kNormed, kDropped, kGradient, kNumSlots };

constexpr int64_t kInputDropout = 0;

constexpr std::array<SlotSpec, kNumSlots> kSlots = {{
    {.name = "input"},
    {.name = "normed", .dropped_from = Tier::kNorms},
    {.name = "dropped", .dropped_from = Tier::kNone},
    {.name = "gradient of the logits"},
}};

}  // namespace

CtcHead::CtcHead(ParameterStore& store, const std::string& name, const CtcHeadOptions& options)
    : options_(options),
      norm_(options.has_norm
                ? std::optional<Norm>(std::in_place, store, name + ".norm", options.width,
                                      options.norm, options.norm_epsilon)
                : std::nullopt),
      linear_(store, name, options.width, options.vocabulary, options.deviation) {}

at::Tensor CtcHead::logits(const at::Tensor& x) const {
  return linear_.forward(norm_ ? norm_->forward(x).front() : x);
}

Ctc::Result CtcHead::forward(at::Tensor x, const Objective& objective, const Context& context,
                             Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape& tape = tapes.open(context.layer, kSlots);
  tape.put(kInput, {std::move(x)});
  at::Tensor logits = linear_.forward(dropped(context, tape));
  tape.settle(kDropped);
  if (norm_) tape.settle(kNormed);
  Ctc::Result result = Ctc::forward(
      logits, {.packing = context.packing, .labels = objective.labels, .blank = options_.blank},
      objective.weights);
  tape.put(kGradient, {std::move(logits)});
  return result;
}

at::Tensor CtcHead::backward(const Context& context, Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kBackward));
  LayerTape& tape = tapes.layer(context.layer);
  tape.begin_backward();
  const at::Tensor& gradient = tape.kept(kGradient).front();
  linear_.accumulate(gradient, dropped(context, tape));
  tape.release(kDropped);
  at::Tensor dx = linear_.input_gradient(gradient);
  tape.release(kGradient);
  if (options_.dropout > 0.0)
    Dropout::apply(dx, context.packing, context.dropout(kInputDropout, options_.dropout));
  if (norm_) dx = norm_->backward(dx, tape.kept(kInput).front(), normed(tape));
  tapes.close(context.layer);
  return dx;
}

const LayerTape::Tensors& CtcHead::normed(LayerTape& tape) const {
  if (!norm_) return tape.kept(kInput);
  return tape.get(kNormed, [&] { return norm_->forward(tape.kept(kInput).front()); });
}

const at::Tensor& CtcHead::dropped(const Context& context, LayerTape& tape) const {
  if (options_.dropout == 0.0) return normed(tape).front();
  const auto compute = [&] {
    return LayerTape::Tensors{Dropout::applied(normed(tape).front(), context.packing,
                                               context.dropout(kInputDropout, options_.dropout))};
  };
  return tape.get(kDropped, compute).front();
}

}  // namespace sotto::nn
