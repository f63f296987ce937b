#include "sotto/models/whisper/whisper.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/models/option_checks.h"
#include "sotto/models/parts/attention_scorer.h"

namespace sotto::models {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::Dropout;
using kernels::Packing;
using nn::Context;

constexpr int64_t kFrontDropout = 0;  // dropout mask in the front end's layer
// Standard deviation of the blocks' initial matrices.
constexpr double kInitialDeviation = 0.02;

std::vector<std::string> frozen_prefixes(const WhisperOptions& options) {
  // The encoder's positions are sines.
  std::vector<std::string> prefixes = {"positions."};
  if (options.num_frozen_layers() > 0) prefixes.emplace_back("subsampling.");
  for (int64_t layer = 0; layer < options.num_frozen_layers(); ++layer)
    prefixes.push_back(nn::prefix_of_block("layers", layer));
  if (options.freeze_encoder) prefixes.emplace_back("norm.");
  for (std::string& prefix :
       nn::AttentionDecoder::frozen_prefixes("decoder", options.freeze_decoder_layers))
    prefixes.push_back(std::move(prefix));
  return prefixes;
}

Outline outline_of(const WhisperOptions& options) {
  Outline outline{.layers = {}, .loss_terms = {{.name = "cross_entropy"}}};
  outline.decoder = data::DecoderTokens{.start = static_cast<int32_t>(options.tokens.start),
                                        .end = static_cast<int32_t>(options.tokens.end),
                                        .num_prompt = options.tokens.num_prompt(),
                                        .counts_end = true};
  outline.add({.prefix = "layers",
               .num_blocks = options.layers,
               .others = {"subsampling", "norm"},
               .drop = options.layer_drop,
               .num_frozen = options.num_frozen_layers()});
  outline.add({.prefix = "decoder.layers",
               .num_blocks = options.decoder_layers,
               .others = {"decoder.head"},
               .drop = options.decoder_layer_drop,
               .num_frozen = options.freeze_decoder_layers});
  return outline;
}

nn::TransformerStack::Options encoder_stack(const WhisperOptions& options) {
  return {.block = {.width = options.width,
                    .hidden = options.hidden,
                    .attention = {.num_heads = options.heads},
                    .dropout = options.dropout,
                    .activation_dropout = options.activation_dropout,
                    .num_layers = options.layers,
                    .deviation = kInitialDeviation,
                    .has_key_bias = false},
          .layer_drop = options.layer_drop,
          .num_frozen = options.num_frozen_layers()};
}

kernels::CrossEntropy::Options loss_options(const WhisperOptions& options, at::ScalarType compute) {
  kernels::CrossEntropy::Options loss{.smoothing = options.label_smoothing};
  if (options.loss_rows > 0) {
    const auto entry_bytes = static_cast<int64_t>(c10::elementSize(compute));
    loss.chunk_bytes = options.loss_rows * options.tokens.vocabulary * entry_bytes;
  }
  return loss;
}

nn::AttentionDecoderOptions decoder_options(const WhisperOptions& options, at::ScalarType compute) {
  return {.vocabulary = options.tokens.vocabulary,
          .layers = options.decoder_layers,
          .width = options.width,
          .heads = options.decoder_heads,
          .hidden = options.decoder_hidden,
          .seen_width = options.width,
          .dropout = options.dropout,
          .activation_dropout = options.activation_dropout,
          .loss = loss_options(options, compute),
          .has_key_bias = false,
          .deviation = kInitialDeviation,
          .layer_drop = options.decoder_layer_drop,
          .num_frozen = options.freeze_decoder_layers,
          .positions = nn::PositionKind::kLearned,
          .max_tokens = options.max_tokens,
          // After the encoder's blocks, front end and norm.
          .first_layer = options.layers + 2,
          .compute = compute};
}

// The positions of the released networks: sines, then cosines, of wavelengths from 2 pi to 10,000 *
// 2 pi. [frames, width], computed in double precision.
at::Tensor sinusoids(int64_t frames, int64_t width) {
  const int64_t half = width / 2;
  at::Tensor table = at::empty({frames, width}, at::kFloat);
  auto* row = table.mutable_data_ptr<float>();
  const double step = std::log(10'000.0) / static_cast<double>(half - 1);
  for (int64_t frame = 0; frame < frames; ++frame, row += width) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(frame) * std::exp(-step * static_cast<double>(i));
      row[i] = static_cast<float>(std::sin(angle));
      row[half + i] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

}  // namespace

Whisper::Whisper(const WhisperOptions& options, const DataShape& shape,
                 const nn::ParameterAllocation& allocation, at::ScalarType compute)
    : Model(outline_of(options)),
      options_(options),
      features_(options, shape, allocation.device, compute),
      store_(frozen_prefixes(options)),
      subsampling_(store_, "subsampling",
                   {.factor = WhisperOptions::kSubsampling,
                    .has_wide_first = true,
                    .num_features = options.features.num_mels,
                    .width = options.width}),
      positions_(store_, "positions",
                 {.kind = nn::PositionKind::kLearned,
                  .width = options.width,
                  .max_frames = options.positions}),
      blocks_(store_, "layers", encoder_stack(options)),
      norm_(store_, "norm", options.width, nn::NormKind::kLayer),
      decoder_(store_, "decoder", decoder_options(options, compute)) {
  if (shape.vocabulary != options.tokens.vocabulary)
    refuse_settings(
        fmt::format("a tokenizer of {} entries", shape.vocabulary),
        fmt::format("{}, as the network has (model.tokens.vocabulary)", options.tokens.vocabulary));
  store_.allocate(allocation);
  if (allocation.device.is_meta()) return;
  store_.find("positions.weight")->value.copy_(sinusoids(options.positions, options.width));
}

data::ItemSize Whisper::size_of(const data::ExampleSize& item) const {
  return {.frames = subsampling_.num_frames(features_.num_frames(item.rows)),
          .labels = item.labels};
}

Context Whisper::front_context(const nn::StepContext& step, const nn::Tape& tape) const {
  const Context context = tape.context(step, front_layer());
  return is_front_frozen() ? context.at_frozen_layer(front_layer()) : context;
}

Context Whisper::norm_context(const nn::StepContext& step, const nn::Tape& tape) const {
  const Context context = tape.context(step, norm_layer());
  return options_.freeze_encoder ? context.at_frozen_layer(norm_layer()) : context;
}

nn::SeenPack Whisper::seen_in(nn::Tape& tape) const {
  const nn::SeenPack seen = tape.seen();
  return {.packing = seen.packing, .result = seen.result, .has_backward = !options_.freeze_encoder};
}

at::Tensor Whisper::encode(const data::MicroBatch& batch, const nn::StepContext& step,
                           nn::Tape& tape) const {
  tape.put_packings(subsampling_.packings_from(features_.frames_of(batch)));
  const std::vector<Packing>& packings = tape.packings();
  const Context context = front_context(step, tape);
  at::Tensor x;
  {
    const MomentScope moment(context.moment(Phase::kForward));
    const Context of_input{.step = step, .packing = packings.front(), .layer = front_layer()};
    x = subsampling_.forward(features_.forward(batch, of_input), packings, context, tape);
    positions_.add(x, context.packing);
    Dropout::apply(x, context.packing, context.dropout(kFrontDropout, options_.dropout));
  }
  x = blocks_.forward(std::move(x), context, tape);
  return norm_.forward(std::move(x), norm_context(step, tape), tape);
}

Losses Whisper::forward(const data::MicroBatch& batch, const nn::StepContext& step,
                        std::span<const float> weights, nn::Tape& tape) {
  tape.shared().put(encode(batch, step, tape));
  return {.terms = {decoder_.forward(*batch.decoder, weights, seen_in(tape), step, tape)}};
}

void Whisper::backward(const data::MicroBatch& batch, const nn::StepContext& step, nn::Tape& tape) {
  decoder_.backward(*batch.decoder, seen_in(tape), step, tape);
  // A step that skips all layers of the decoder has no gradient for the encoder either.
  if (options_.freeze_encoder || !tape.shared().has_gradient()) return;
  at::Tensor dx = norm_.backward(tape.shared().take_gradient(), norm_context(step, tape), tape);
  const Context context = front_context(step, tape);
  dx = blocks_.backward(std::move(dx), context, tape);
  if (is_front_frozen()) return;
  const MomentScope moment(context.moment(Phase::kBackward));
  Dropout::apply(dx, context.packing, context.dropout(kFrontDropout, options_.dropout));
  subsampling_.backward(std::move(dx), tape.packings(), context, tape);
}

Recognition Whisper::recognise(const data::MicroBatch& batch) {
  nn::Tape tape;
  const at::Tensor encoded = encode(batch, {.is_training = false}, tape);
  const Packing& frames = tape.packings().back();
  tape.shared().put(encoded);
  Recognition recognition{.losses = {.terms = {decoder_.evaluate(*batch.decoder, seen_in(tape))}}};
  // There are no words in the silence that was added.
  std::vector<int64_t> of_audio;
  for (const int64_t samples : batch.packing.lengths()) {
    const int64_t own = kernels::LogMel::num_frames(samples, options_.features);
    of_audio.push_back(std::clamp<int64_t>(subsampling_.num_frames(own), 1, frames.max_length()));
  }
  const data::DecoderTokens& tokens = *outline().decoder;
  recognition.scorer = std::make_unique<AttentionScorer>(
      decoder_,
      AttentionScorer::Audio{
          .encoded = encoded, .packing = frames, .num_frames = std::move(of_audio)},
      AttentionScorer::Tokens{.prompts = prompts_of(batch.labels, tokens),
                              .end = tokens.end,
                              .most = options_.max_tokens});
  return recognition;
}

at::Tensor Whisper::logits(const data::MicroBatch& batch) {
  nn::Tape tape;
  tape.shared().put(encode(batch, {.is_training = false}, tape));
  return decoder_.logits(*batch.decoder, seen_in(tape));
}

}  // namespace sotto::models
