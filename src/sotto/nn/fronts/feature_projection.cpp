#include "sotto/nn/fronts/feature_projection.h"

#include <array>
#include <utility>

#include "sotto/kernels/elementwise/dropout.h"

namespace sotto::nn {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::Dropout;

enum Slot : size_t { kInput, kNormed, kNumSlots };

constexpr std::array<SlotSpec, kNumSlots> kSlots = {{
    {.name = "features"},
    {.name = "normed features", .dropped_from = Tier::kNorms},
}};

constexpr int64_t kResultDropout = 0;

}  // namespace

FeatureProjection::FeatureProjection(ParameterStore& store, const std::string& name,
                                     const FeatureProjectionOptions& options)
    : options_(options),
      norm_(store, name + ".norm", options.features, NormKind::kLayer, options.norm_epsilon),
      linear_(store, name, options.features, options.width) {}

at::Tensor FeatureProjection::forward(at::Tensor x, const Context& context, Tape& tapes) const {
  const MomentScope moment(context.moment(Phase::kForward));
  LayerTape& tape = tapes.open(context.layer, kSlots, context.has_backward());
  tape.put(kInput, {std::move(x)});
  at::Tensor y = linear_.forward(normed(tape).front());
  tape.settle(kNormed);
  Dropout::apply(y, context.packing, context.dropout(kResultDropout, options_.dropout));
  if (!context.has_backward()) tapes.close(context.layer);
  return y;
}

at::Tensor FeatureProjection::backward(at::Tensor dy, const Context& context, Tape& tapes,
                                       bool needs_input) const {
  const MomentScope moment(context.moment(Phase::kBackward));
  LayerTape& tape = tapes.layer(context.layer);
  tape.begin_backward();
  Dropout::apply(dy, context.packing, context.dropout(kResultDropout, options_.dropout));
  linear_.accumulate(dy, normed(tape).front());
  // The norm's own parameters need its gradient even where the features need none.
  const at::Tensor d_normed = linear_.input_gradient(dy);
  dy.reset();
  at::Tensor dx = norm_.backward(d_normed, tape.kept(kInput).front(), normed(tape));
  tapes.close(context.layer);
  return needs_input ? dx : at::Tensor();
}

const LayerTape::Tensors& FeatureProjection::normed(LayerTape& tape) const {
  return tape.get(kNormed, [&] { return norm_.forward(tape.kept(kInput).front()); });
}

}  // namespace sotto::nn
