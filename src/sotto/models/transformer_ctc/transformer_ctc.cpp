#include "sotto/models/transformer_ctc/transformer_ctc.h"

#include <ATen/ATen.h>

#include <utility>

#include "sotto/models/families.h"
#include "sotto/models/option_checks.h"
#include "sotto/models/parts/ctc_results.h"
#include "sotto/models/parts/mask_checks.h"

namespace sotto::models {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::Dropout;
using kernels::Packing;
using nn::Context;

constexpr int64_t kDropoutOfInput = 0;

std::optional<int64_t> window_of(int64_t frames) {
  return frames < 0 ? std::nullopt : std::optional(frames);
}

nn::TransformerBlockOptions block_options(const TransformerCtcOptions& options) {
  return {.width = options.width,
          .hidden = options.hidden,
          .attention = {.num_heads = options.heads,
                        .left = window_of(options.attention_left),
                        .right = window_of(options.attention_right)},
          .dropout = options.dropout,
          .activation_dropout = options.dropout,
          .activation = options.activation,
          .norm = options.norm,
          .norm_first = options.norm_first,
          .num_layers = options.layers};
}

Outline outline_of(const TransformerCtcOptions& options) {
  Outline outline{.layers = {}, .loss_terms = {{.name = "ctc"}}, .scores_frames = true};
  outline.add(
      {.prefix = "layers", .num_blocks = options.layers, .others = {"subsampling", "head"}});
  return outline;
}

FamilySpec<TransformerCtcOptions>::Preset preset_of(const char* name,
                                                    const TransformerSizes& sizes) {
  TransformerCtcOptions options;
  options.layers = sizes.layers;
  options.width = sizes.width;
  options.heads = sizes.heads;
  options.hidden = sizes.hidden;
  return {.name = name, .options = options};
}

std::string describe_transformer_ctc(const TransformerCtcOptions&, const DataShape& shape) {
  const std::string input = shape.feature_dim == 0
                                ? "log-mel features"
                                : fmt::format("stored features of width {}", shape.feature_dim);
  return fmt::format("A transformer encoder over {} with a CTC head", input);
}

}  // namespace

Family transformer_ctc_family() {
  using Options = TransformerCtcOptions;
  return make_family<Options>(
      {.name = "transformer_ctc",
       .task = kTranscription,
       .example = "configs/transformer_ctc.yaml",
       .presets = {preset_of("tiny", {.layers = 4, .width = 144, .heads = 4, .hidden = 576}),
                   preset_of("small", {.layers = 8, .width = 256, .heads = 4, .hidden = 1024})},
       .make = make_network<TransformerCtc, Options>,
       .keep_one_layer = [](Options& options) { options.layers = 1; },
       .describe = describe_transformer_ctc,
       .sample_rate = [](const Options& options) { return options.features.sample_rate; },
       .min_rows =
           [](const Options& options, int64_t feature_dim) {
             return SpeechFeatures::min_rows(options.features, feature_dim);
           },
       .check_effects =
           [](const Options& options, const Options& given) {
             check_spec_augment(options.spec_augment, given.spec_augment);
           }});
}

void TransformerCtcOptions::visit(OptionVisitor& visitor) {
  visitor.group("features", features, "log-mel features of the waveform");
  visitor.group("spec_augment", spec_augment, "masking of features in training");
  visitor.choice("subsampling", subsampling, "subsampling in time: convolutions or stacked frames",
                 nn::kSubsamplingKinds);
  visitor.value("subsampling_factor", subsampling_factor,
                "input frames per encoder frame; 2 or 4 for conv", {.min = 1, .max = 16});
  visitor.value("layers", layers, "transformer blocks", {.min = 1, .max = 200});
  visitor.value("width", width, "values per encoder frame", {.min = 2, .max = 16'384});
  visitor.value("heads", heads, "attention heads; must divide the width", {.min = 1, .max = 256});
  visitor.value("hidden", hidden, "feed-forward width", {.min = 1, .max = 65'536});
  visitor.value("dropout", dropout, "dropout probability", {.min = 0, .below = 1});
  visitor.choice("activation", activation, "activation of convolutions and feed-forward parts",
                 nn::kActivations);
  visitor.choice("norm", norm, "kind of normalisation", nn::kNormKinds);
  visitor.value("norm_first", norm_first,
                "normalise before both parts of a block (pre-norm), not after them");
  visitor.choice("positions", positions, "position encoding", nn::kPositionKinds);
  visitor.value("max_frames", max_frames,
                "number of learned positions: the longest utterance in frames",
                {.min = 1, .max = 1'000'000});
  visitor.value("attention_left", attention_left,
                "preceding frames that a frame attends to; -1: all", {.min = -1});
  visitor.value("attention_right", attention_right,
                "following frames that a frame attends to; -1: all", {.min = -1});
}

void TransformerCtcOptions::validate() const {
  check_heads(width, heads);
  if (width % 2 != 0 && positions == nn::PositionKind::kSinusoidal)
    refuse_settings(fmt::format("sinusoidal positions with a width of {}", width), "an even width");
  if (subsampling == nn::SubsamplingKind::kConvolution && subsampling_factor != 2 &&
      subsampling_factor != 4)
    refuse_settings(fmt::format("convolutions with a subsampling_factor of {}", subsampling_factor),
                    "2 or 4, or subsampling: stack");
}

TransformerCtc::TransformerCtc(const TransformerCtcOptions& options, const DataShape& shape,
                               const nn::ParameterAllocation& allocation, at::ScalarType compute)
    : Model(outline_of(options)),
      options_(options),
      features_({.log_mel = options.features, .masks = options.spec_augment}, shape,
                allocation.device, compute),
      subsampling_(store_, "subsampling",
                   {.kind = options.subsampling,
                    .factor = options.subsampling_factor,
                    .num_features = features_.width(),
                    .width = options.width,
                    .activation = options.activation}),
      positions_(
          store_, "positions",
          {.kind = options.positions, .width = options.width, .max_frames = options.max_frames}),
      blocks_(store_, "layers", {.block = block_options(options)}),
      head_(store_, "head",
            {.width = options.width,
             .vocabulary = shape.vocabulary,
             .blank = shape.blank,
             .norm = options.norm,
             .has_norm = options.norm_first}) {
  store_.allocate(allocation);
}

data::ItemSize TransformerCtc::size_of(const data::ExampleSize& item) const {
  return {.frames = subsampling_.num_frames(features_.num_frames(item.rows)),
          .labels = item.labels};
}

Losses TransformerCtc::forward(const data::MicroBatch& batch, const nn::StepContext& step,
                               std::span<const float> weights, nn::Tape& tape) {
  at::Tensor x = encode(batch, step, tape);
  const Context context = tape.context(step, head_layer());
  return ctc_losses(
      head_.forward(std::move(x), {.labels = batch.labels, .weights = weights}, context, tape));
}

void TransformerCtc::backward(const data::MicroBatch&, const nn::StepContext& step,
                              nn::Tape& tape) {
  const Packing& packing = tape.packings().back();
  const Context context{.step = step, .packing = packing, .layer = head_layer()};
  at::Tensor dx = head_.backward(context, tape);
  dx = blocks_.backward(std::move(dx), context, tape);
  const Context front = context.at_layer(front_layer());
  const MomentScope moment(front.moment(Phase::kBackward));
  Dropout::apply(dx, packing, front.dropout(kDropoutOfInput, options_.dropout));
  positions_.accumulate(dx, packing);
  subsampling_.backward(std::move(dx), tape.packings(), front, tape);
}

Recognition TransformerCtc::recognise(const data::MicroBatch& batch) {
  nn::Tape tape;
  const at::Tensor x = encode(batch, {.is_training = false}, tape);
  const Packing& packing = tape.packings().back();
  const MomentScope moment({.phase = Phase::kForward, .micro_batch = 0, .layer = head_layer()});
  const at::Tensor logits = head_.logits(x);
  return ctc_recognition(logits, packing, batch.labels, head_.blank());
}

at::Tensor TransformerCtc::encode(const data::MicroBatch& batch, const nn::StepContext& step,
                                  nn::Tape& tape) const {
  tape.put_packings(subsampling_.packings_from(features_.frames_of(batch)));
  const std::vector<Packing>& packings = tape.packings();
  const Context context{.step = step, .packing = packings.back(), .layer = front_layer()};
  at::Tensor x;
  {
    const MomentScope moment(context.moment(Phase::kForward));
    const Context of_input{.step = step, .packing = packings.front(), .layer = front_layer()};
    x = subsampling_.forward(features_.forward(batch, of_input), packings, context, tape);
    positions_.add(x, context.packing);
    Dropout::apply(x, context.packing, context.dropout(kDropoutOfInput, options_.dropout));
  }
  return blocks_.forward(std::move(x), context, tape);
}

}  // namespace sotto::models
