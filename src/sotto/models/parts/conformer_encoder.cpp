#include "sotto/models/parts/conformer_encoder.h"

#include <utility>
#include <vector>

namespace sotto::models {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::Dropout;
using kernels::Packing;
using nn::Context;

constexpr int64_t kInputDropout = 0;

}  // namespace

std::optional<SplitDependence> split_dependence_of(nn::InnerNormKind convolution_norm) {
  if (convolution_norm != nn::InnerNormKind::kBatch) return std::nullopt;
  return SplitDependence{.key = "convolution_norm",
                         .value = std::string(name_of(convolution_norm, nn::kInnerNormKinds)),
                         .reason = "each micro-batch is normalised by its own statistics"};
}

ConformerEncoder::ConformerEncoder(nn::ParameterStore& store,
                                   const ConformerEncoderOptions& options, const DataShape& shape,
                                   const nn::ParameterAllocation& allocation,
                                   at::ScalarType compute)
    : options_(options),
      features_(options.features, shape, allocation.device, compute),
      subsampling_(store, "subsampling",
                   {.kind = options.subsampling,
                    .factor = options.subsampling_factor,
                    .channels = options.subsampling_channels,
                    .num_features = features_.width(),
                    .width = options.blocks.block.width}),
      blocks_(store, "layers", options.blocks) {}

int64_t ConformerEncoder::num_frames(int64_t rows) const {
  return subsampling_.num_frames(features_.num_frames(rows));
}

Context ConformerEncoder::front_context(const nn::StepContext& step, const nn::Tape& tape) const {
  const Context context = tape.context(step, front_layer());
  return is_front_frozen() ? context.at_frozen_layer(front_layer()) : context;
}

Dropout::Mask ConformerEncoder::input_mask(const Context& context) const {
  return context.dropout(kInputDropout, options_.input_dropout, options_.input_scale);
}

at::Tensor ConformerEncoder::forward(const data::MicroBatch& batch, const nn::StepContext& step,
                                     nn::Tape& tape) const {
  tape.put_packings(subsampling_.packings_from(features_.frames_of(batch)));
  const std::vector<Packing>& packings = tape.packings();
  const Context context = front_context(step, tape);
  at::Tensor x;
  {
    const MomentScope moment(context.moment(Phase::kForward));
    const Context of_input{.step = step, .packing = packings.front(), .layer = front_layer()};
    x = subsampling_.forward(features_.forward(batch, of_input), packings, context, tape);
    Dropout::apply(x, context.packing, input_mask(context));
  }
  return blocks_.forward(std::move(x), context, tape);
}

void ConformerEncoder::backward(at::Tensor dx, const nn::StepContext& step, nn::Tape& tape) const {
  const Context context = front_context(step, tape);
  dx = blocks_.backward(std::move(dx), context, tape);
  if (is_front_frozen()) return;
  const MomentScope moment(context.moment(Phase::kBackward));
  Dropout::apply(dx, context.packing, input_mask(context));
  subsampling_.backward(dx, tape.packings(), context, tape);
}

}  // namespace sotto::models
