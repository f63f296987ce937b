#include "sotto/models/parakeet/parakeet.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "sotto/models/parts/ctc_results.h"
#include "sotto/models/parts/transducer_scorer.h"

namespace sotto::models {

namespace {

using device::MomentScope;
using device::Phase;

std::vector<std::string> frozen_prefixes(const ParakeetOptions& options) {
  std::vector<std::string> prefixes;
  if (options.freeze_layers > 0) prefixes.emplace_back("subsampling.");
  for (int64_t layer = 0; layer < options.freeze_layers; ++layer)
    prefixes.push_back(nn::prefix_of_block("layers", layer));
  return prefixes;
}

Outline outline_of(const ParakeetOptions& options, const DataShape& shape) {
  Outline outline{
      .layers = {},
      .loss_terms = {{.name = std::string(name_of(options.objective, kParakeetObjectives))}}};
  std::vector<std::string> others = {"subsampling"};
  if (options.has_transducer()) {
    outline.scores_lattice = true;
    // Its prediction network starts with the blank.
    const auto blank = static_cast<int32_t>(shape.blank);
    outline.decoder = data::DecoderTokens{.start = blank, .end = blank};
    for (int64_t layer = 0; layer < options.transducer.layers; ++layer)
      others.push_back(fmt::format("transducer.prediction.lstm.{}", layer));
    others.emplace_back("transducer");
  } else {
    outline.scores_frames = true;
    others.emplace_back("ctc");
  }
  outline.add({.prefix = "layers",
               .num_blocks = options.layers,
               .others = std::move(others),
               .drop = options.layer_drop,
               .num_frozen = options.freeze_layers});
  return outline;
}

Losses transducer_losses(nn::TransducerHead::Result result) {
  return {.terms = {std::move(result.loss)}, .infeasible = std::move(result.infeasible)};
}

SpeechFeatureOptions feature_options(const ParakeetOptions& options) {
  kernels::LogMelOptions usual = kernels::LogMelOptions::of_kind(kernels::LogMelKind::kNemo);
  // Presets differ in it; that of stored features is their own.
  usual.num_mels = options.features.num_mels;
  return {.log_mel = options.features, .masks = options.spec_augment, .usual_log_mel = usual};
}

ConformerEncoderOptions encoder_options(const ParakeetOptions& options) {
  return {.features = feature_options(options),
          .subsampling = nn::ImageSubsamplingKind::kSeparable,
          .subsampling_factor = options.subsampling_factor,
          .subsampling_channels = options.subsampling_channels,
          .blocks = {.block = {.width = options.width,
                               .hidden = options.hidden,
                               .attention = {.num_heads = options.heads},
                               .kernel = options.kernel,
                               .inner_norm = options.convolution_norm,
                               .has_biases = options.biases,
                               .dropout = options.dropout,
                               .activation_dropout = options.activation_dropout,
                               .num_layers = options.layers},
                     .layer_drop = options.layer_drop,
                     .num_frozen = options.freeze_layers},
          .input_scale = options.scale_input ? std::sqrt(static_cast<double>(options.width)) : 1.0,
          .input_dropout = options.input_dropout};
}

}  // namespace

Parakeet::Parakeet(const ParakeetOptions& options, const DataShape& shape,
                   const nn::ParameterAllocation& allocation, at::ScalarType compute)
    : Model(outline_of(options, shape)),
      options_(options),
      store_(frozen_prefixes(options)),
      encoder_(store_, encoder_options(options), shape, allocation, compute) {
  if (options.has_transducer()) {
    transducer_.emplace(store_, "transducer", transducer_options(shape, compute));
  } else {
    ctc_.emplace(store_, "ctc",
                 nn::CtcHeadOptions{.width = options.width,
                                    .vocabulary = shape.vocabulary,
                                    .blank = shape.blank,
                                    .has_norm = false});
  }
  store_.allocate(allocation);
}

nn::TransducerHeadOptions Parakeet::transducer_options(const DataShape& shape,
                                                       at::ScalarType compute) const {
  const TransducerOptions& given = options_.transducer;
  nn::TransducerHeadOptions options{.width = options_.width,
                                    .joint_width = given.joint_width,
                                    .prediction = {.vocabulary = shape.vocabulary,
                                                   .blank = shape.blank,
                                                   .layers = given.layers,
                                                   .width = given.width,
                                                   .dropout = given.dropout,
                                                   .trains_blank = given.train_start,
                                                   .first_layer = head_layer(),
                                                   .compute = compute},
                                    .joint_dropout = given.joint_dropout};
  if (options_.has_durations()) {
    options.durations = given.durations;
    options.sigma = given.sigma;
    options.omega = given.omega;
  }
  if (options_.loss_rows > 0) {
    // The kernel pads a node's logits to a multiple of eight.
    const int64_t outputs = (shape.vocabulary + std::ssize(options.durations) + 7) / 8 * 8;
    options.chunk_bytes =
        options_.loss_rows * outputs * static_cast<int64_t>(c10::elementSize(compute));
  }
  return options;
}

data::ItemSize Parakeet::size_of(const data::ExampleSize& item) const {
  const int64_t frames = encoder_.num_frames(item.rows);
  return {.frames = frames,
          .labels = item.labels,
          .nodes = transducer_ ? frames * (item.labels + 1) : 0};
}

Losses Parakeet::forward(const data::MicroBatch& batch, const nn::StepContext& step,
                         std::span<const float> weights, nn::Tape& tape) {
  at::Tensor encoded = encoder_.forward(batch, step, tape);
  if (ctc_)
    return ctc_losses(ctc_->forward(std::move(encoded),
                                    {.labels = batch.labels, .weights = weights},
                                    tape.context(step, head_layer()), tape));
  return transducer_losses(transducer_->forward(
      std::move(encoded),
      {.labels = batch.labels, .predictions = *batch.decoder, .weights = weights}, step, tape));
}

void Parakeet::backward(const data::MicroBatch& batch, const nn::StepContext& step,
                        nn::Tape& tape) {
  at::Tensor dx = ctc_ ? ctc_->backward(tape.context(step, head_layer()), tape)
                       : transducer_->backward(*batch.decoder, step, tape);
  encoder_.backward(std::move(dx), step, tape);
}

Recognition Parakeet::recognise(const data::MicroBatch& batch) {
  nn::Tape tape;
  const at::Tensor encoded = encoder_.forward(batch, {.is_training = false}, tape);
  const kernels::Packing& frames = tape.packings().back();
  if (ctc_) {
    const MomentScope moment({.phase = Phase::kForward, .micro_batch = 0, .layer = head_layer()});
    return ctc_recognition(ctc_->logits(encoded), frames, batch.labels, ctc_->blank());
  }
  Recognition recognition{
      .losses = transducer_losses(transducer_->evaluate(
          encoded, frames, {.labels = batch.labels, .predictions = *batch.decoder}))};
  recognition.lattice = std::make_unique<TransducerScorer>(*transducer_, encoded, frames);
  return recognition;
}

}  // namespace sotto::models
