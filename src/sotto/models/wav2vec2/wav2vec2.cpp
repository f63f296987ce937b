#include "sotto/models/wav2vec2/wav2vec2.h"

#include <ATen/ATen.h>

#include <utility>

#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/kernels/norm/group_norm.h"
#include "sotto/models/parts/ctc_results.h"
#include "sotto/nn/constant.h"

namespace sotto::models {

namespace {

using device::Category;
using device::CategoryScope;
using device::MomentScope;
using device::Phase;
using kernels::Dropout;
using kernels::GroupNorm;
using kernels::Packing;
using nn::Context;

// Value of Hugging Face's feature extractor.
constexpr double kWaveEpsilon = 1e-7;
// Standard deviation of the encoder's initial matrices.
constexpr double kDeviation = 0.02;

constexpr int64_t kEncoderDropout = 1;  // dropout mask in the positions' layer

std::vector<std::string> frozen_prefixes(const Wav2Vec2Options& options) {
  std::vector<std::string> prefixes;
  const bool freezes_front = options.freeze_layers > 0;
  if (freezes_front || options.freeze_feature_encoder) prefixes.emplace_back("waves.");
  if (freezes_front) prefixes.insert(prefixes.end(), {"projection.", "mask"});
  if (freezes_front || options.freeze_positions)
    prefixes.insert(prefixes.end(), {"positions.direction", "positions.length", "positions.bias"});
  if (freezes_front) prefixes.emplace_back("positions.norm.");
  for (int64_t layer = 0; layer < options.freeze_layers; ++layer)
    prefixes.push_back(nn::prefix_of_block("layers", layer));
  return prefixes;
}

nn::TransformerStack::Options stack_options(const Wav2Vec2Options& options) {
  return {.block = {.width = options.width,
                    .hidden = options.hidden,
                    .attention = {.num_heads = options.heads},
                    .dropout = options.dropout,
                    .activation_dropout = options.activation_dropout,
                    .activation = options.activation,
                    .norm_epsilon = options.norm_epsilon,
                    .norm_first = options.norm_first,
                    .num_layers = options.layers,
                    .deviation = kDeviation},
          .layer_drop = options.layer_drop,
          .num_frozen = options.freeze_layers};
}

Outline outline_of(const Wav2Vec2Options& options) {
  Outline outline{.layers = {}, .loss_terms = {{.name = "ctc"}}, .scores_frames = true};
  outline.add({.prefix = "layers",
               .num_blocks = options.layers,
               .others = {"projection", "positions", "head"},
               .drop = options.layer_drop,
               .num_frozen = options.freeze_layers});
  return outline;
}

nn::SpecMaskOptions mask_options(const Wav2Vec2Options& options) {
  return {.width = options.width,
          .frames = {.probability = options.mask_time_probability,
                     .length = options.mask_time_length,
                     .min_spans = options.mask_time_min},
          .features = {.probability = options.mask_feature_probability,
                       .length = options.mask_feature_length,
                       .min_spans = options.mask_feature_min},
          .is_on = options.mask};
}

}  // namespace

Wav2Vec2::Wav2Vec2(const Wav2Vec2Options& options, const DataShape& shape,
                   const nn::ParameterAllocation& allocation, at::ScalarType compute)
    : Model(outline_of(options)),
      options_(options),
      compute_(compute),
      one_(nn::constant(1, 1.0, allocation.device)),
      zero_(nn::constant(1, 0.0, allocation.device)),
      store_(frozen_prefixes(options)),
      waves_(store_, "waves",
             {.widths = options.conv_widths,
              .kernels = options.conv_kernels,
              .strides = options.conv_strides,
              .has_bias = options.conv_bias,
              .norm = options.conv_norm,
              .activation = options.conv_activation,
              .piece_frames = options.piece_frames}),
      projection_(store_, "projection",
                  {.features = options.conv_widths.back(),
                   .width = options.width,
                   .dropout = options.feature_dropout,
                   .norm_epsilon = options.norm_epsilon}),
      mask_(store_, "mask", mask_options(options)),
      positions_(store_, "positions",
                 {.width = options.width,
                  .taps = options.position_taps,
                  .groups = options.position_groups,
                  .activation = options.conv_activation,
                  .has_norm = !options.norm_first,
                  .norm_epsilon = options.norm_epsilon}),
      blocks_(store_, "layers", stack_options(options)),
      head_(store_, "head",
            {.width = options.width,
             .vocabulary = shape.vocabulary,
             .blank = shape.blank,
             .norm_epsilon = options.norm_epsilon,
             .has_norm = options.norm_first,
             .dropout = options.final_dropout,
             .deviation = kDeviation}) {
  store_.allocate(allocation);
}

Losses Wav2Vec2::forward(const data::MicroBatch& batch, const nn::StepContext& step,
                         std::span<const float> weights, nn::Tape& tape) {
  at::Tensor x = encode(batch, step, tape);
  const Context context = tape.context(step, tape_of(kHead));
  return ctc_losses(
      head_.forward(std::move(x), {.labels = batch.labels, .weights = weights}, context, tape));
}

void Wav2Vec2::backward(const data::MicroBatch& batch, const nn::StepContext& step,
                        nn::Tape& tape) {
  const Packing& packing = tape.packings().back();
  const Context context{.step = step, .packing = packing, .layer = tape_of(kHead)};
  at::Tensor dx = head_.backward(context, tape);
  dx = blocks_.backward(std::move(dx), context, tape);
  if (!trains_front()) return;

  const Context at_positions = context.at_layer(tape_of(kPositions));
  Dropout::apply(dx, packing, at_positions.dropout(kEncoderDropout, options_.dropout));
  dx = positions_.backward(std::move(dx), at_positions, tape);
  mask_.backward(dx, at_positions);
  dx = projection_.backward(std::move(dx), context.at_layer(tape_of(kProjection)), tape,
                            trains_waves());
  if (!trains_waves()) return;
  const MomentScope moment(context.at_layer(tape_of(kProjection)).moment(Phase::kBackward));
  waves_.backward(dx, normalised(batch), {.samples = batch.packing, .frames = packing});
}

Recognition Wav2Vec2::recognise(const data::MicroBatch& batch) {
  nn::Tape tape;
  const at::Tensor x = encode(batch, {.is_training = false}, tape);
  const Packing& packing = tape.packings().back();
  const MomentScope moment({.phase = Phase::kForward, .micro_batch = 0, .layer = tape_of(kHead)});
  const at::Tensor frame_logits = head_.logits(x);
  return ctc_recognition(frame_logits, packing, batch.labels, head_.blank());
}

at::Tensor Wav2Vec2::logits(const data::MicroBatch& batch) {
  nn::Tape tape;
  return head_.logits(encode(batch, {.is_training = false}, tape));
}

Packing Wav2Vec2::frames_of(const data::MicroBatch& batch) const {
  std::vector<int64_t> lengths;
  for (const int64_t samples : batch.packing.lengths())
    lengths.push_back(waves_.num_frames(samples));
  return {std::move(lengths), batch.values.device(), batch.packing.keys()};
}

at::Tensor Wav2Vec2::normalised(const data::MicroBatch& batch) const {
  if (!options_.normalise) return batch.values;
  const CategoryScope category(Category::kData);
  const GroupNorm::Parameters parameters{.gamma = one_, .beta = zero_, .epsilon = kWaveEpsilon};
  return GroupNorm::forward(batch.values.view({-1, 1}), batch.packing, parameters).y.view({-1});
}

at::Tensor Wav2Vec2::encode(const data::MicroBatch& batch, const nn::StepContext& step,
                            nn::Tape& tape) const {
  std::vector<Packing> packings;
  packings.push_back(frames_of(batch));
  tape.put_packings(std::move(packings));
  const Packing& packing = tape.packings().back();
  const Context context{.step = step, .packing = packing};
  const auto own = [&](Other other) {
    return trains_front() ? context.at_layer(tape_of(other))
                          : context.at_frozen_layer(tape_of(other));
  };
  at::Tensor x;
  {
    const MomentScope moment(own(kProjection).moment(Phase::kForward));
    x = waves_.forward(normalised(batch), {.samples = batch.packing, .frames = packing}, compute_);
  }
  x = projection_.forward(std::move(x), own(kProjection), tape);
  mask_.apply(x, own(kPositions));
  x = positions_.forward(std::move(x), own(kPositions), tape);
  Dropout::apply(x, packing, own(kPositions).dropout(kEncoderDropout, options_.dropout));
  return blocks_.forward(std::move(x), context, tape);
}

}  // namespace sotto::models
