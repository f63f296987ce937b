#include "sotto/models/conformer/conformer.h"

#include <memory>
#include <utility>

#include "sotto/models/families.h"
#include "sotto/models/option_checks.h"
#include "sotto/models/parts/attention_scorer.h"
#include "sotto/models/parts/ctc_results.h"
#include "sotto/models/parts/mask_checks.h"
#include "sotto/models/reduction.h"

namespace sotto::models {

namespace {

using device::MomentScope;
using device::Phase;
using kernels::Packing;

double weight_of_ctc(const ConformerOptions& options) {
  return options.has_decoder() ? options.ctc_weight : 1.0;
}

double weight_of_attention(const ConformerOptions& options) {
  return options.has_ctc() ? 1.0 - options.ctc_weight : 1.0;
}

// The entry after the last of the vocabulary starts and ends a sentence of the decoder.
data::DecoderTokens decoder_tokens(const DataShape& shape) {
  const auto entry = static_cast<int32_t>(shape.vocabulary);
  return {.start = entry, .end = entry};
}

Outline outline_of(const ConformerOptions& options, const DataShape& shape) {
  Outline outline;
  outline.scores_frames = options.has_ctc();
  if (options.has_ctc())
    outline.loss_terms.push_back({.name = "ctc", .weight = weight_of_ctc(options)});
  std::vector<std::string> others = {"subsampling"};
  if (options.has_ctc()) others.emplace_back("ctc");
  outline.add({.prefix = "layers", .num_blocks = options.layers, .others = std::move(others)});
  if (!options.has_decoder()) return outline;
  outline.loss_terms.push_back({.name = "attention", .weight = weight_of_attention(options)});
  outline.decoder = decoder_tokens(shape);
  outline.add({.prefix = "decoder.layers",
               .num_blocks = options.decoder_layers,
               .others = {"decoder.head"}});
  return outline;
}

FamilySpec<ConformerOptions>::Preset joint(const char* name, const TransformerSizes& encoder,
                                           int64_t decoder_layers) {
  ConformerOptions options;
  options.layers = encoder.layers;
  options.width = encoder.width;
  options.heads = encoder.heads;
  options.hidden = encoder.hidden;
  options.decoder_layers = decoder_layers;
  return {.name = name, .options = options};
}

// The sizes of the paper (Gulati et al. 2020, table 1), trained with CTC.
FamilySpec<ConformerOptions>::Preset of_the_paper(const char* name,
                                                  const TransformerSizes& encoder) {
  FamilySpec<ConformerOptions>::Preset preset = joint(name, encoder, 0);
  preset.options.objective = ConformerObjective::kCtc;
  return preset;
}

std::string describe(const ConformerOptions& options, const DataShape&) {
  switch (options.objective) {
    case ConformerObjective::kCtc:
      return "A Conformer encoder over log-mel features with a CTC head";
    case ConformerObjective::kAttention:
      return "A Conformer encoder over log-mel features with an attention decoder";
    case ConformerObjective::kJoint:
      return "A Conformer encoder over log-mel features with a CTC head and an attention decoder";
  }
  return {};
}

// Throws ConfigError for a setting of a part that this objective does not have.
void check_objective(const ConformerOptions& options, const ConformerOptions& given) {
  const auto refuse = [&](const char* key, const char* part) {
    refuse_settings(fmt::format("{} with objective {}, which has no {}", key,
                                name_of(options.objective, kConformerObjectives), part),
                    fmt::format("objective: joint, or no setting of {}", key));
  };
  if (options.objective != ConformerObjective::kJoint && options.ctc_weight != given.ctc_weight)
    refuse("ctc_weight", options.has_ctc() ? "attention decoder" : "CTC head");
  if (options.has_decoder()) return;
  if (options.decoder_layers != given.decoder_layers) refuse("decoder_layers", "attention decoder");
  if (options.label_smoothing != given.label_smoothing)
    refuse("label_smoothing", "attention decoder");
}

ConformerEncoderOptions encoder_options(const ConformerOptions& options) {
  return {.features = {.log_mel = options.features, .masks = options.spec_augment},
          .subsampling = options.subsampling,
          .subsampling_factor = options.subsampling_factor,
          .subsampling_channels = options.channels(),
          .blocks = {.block = {.width = options.width,
                               .hidden = options.hidden,
                               .attention = {.num_heads = options.heads},
                               .kernel = options.kernel,
                               .inner_norm = options.convolution_norm,
                               .has_biases = options.biases,
                               .dropout = options.dropout,
                               .activation_dropout = options.dropout,
                               .num_layers = options.layers}},
          .input_dropout = options.dropout};
}

}  // namespace

Family conformer_family() {
  using Options = ConformerOptions;
  return make_family<Options>(
      {.name = "conformer",
       .task = kTranscription,
       .example = "configs/conformer.yaml",
       .presets =
           {joint("conformer-256", {.layers = 12, .width = 256, .heads = 4, .hidden = 1024}, 6),
            joint("conformer-192", {.layers = 8, .width = 192, .heads = 4, .hidden = 768}, 4),
            joint("conformer-128", {.layers = 6, .width = 128, .heads = 4, .hidden = 512}, 3),
            of_the_paper("conformer-s", {.layers = 16, .width = 144, .heads = 4, .hidden = 576}),
            of_the_paper("conformer-m", {.layers = 16, .width = 256, .heads = 4, .hidden = 1024}),
            of_the_paper("conformer-l", {.layers = 17, .width = 512, .heads = 8, .hidden = 2048})},
       .make = make_network<Conformer, Options>,
       .keep_one_layer = [](Options& options) { options.layers = options.decoder_layers = 1; },
       .describe = describe,
       .sample_rate = [](const Options& options) { return options.features.sample_rate; },
       .min_rows =
           [](const Options& options, int64_t feature_dim) {
             return SpeechFeatures::min_rows(options.features, feature_dim);
           },
       .check_effects =
           [](const Options& options, const Options& given) {
             check_spec_augment(options.spec_augment, given.spec_augment);
             check_objective(options, given);
           },
       .split_dependence =
           [](const Options& options) { return split_dependence_of(options.convolution_norm); }});
}

void ConformerOptions::visit(OptionVisitor& visitor) {
  visitor.group("features", features, "log-mel features of the waveform");
  visitor.group("spec_augment", spec_augment, "masking of features in training");
  visitor.choice("subsampling", subsampling,
                 "2-D convolutions before the blocks: plain, or depthwise-separable",
                 nn::kImageSubsamplingKinds);
  visitor.value("subsampling_factor", subsampling_factor,
                "input frames per encoder frame: 2, 4 or 8", {.min = 2, .max = 8});
  visitor.value("subsampling_channels", subsampling_channels,
                "channels of these convolutions; 0: as many as the width",
                {.min = 0, .max = 16'384});
  visitor.value("layers", layers, "Conformer blocks", {.min = 1, .max = 200});
  visitor.value("width", width, "values per encoder frame", {.min = 2, .max = 16'384});
  visitor.value("heads", heads, "attention heads; must divide the width", {.min = 1, .max = 256});
  visitor.value("hidden", hidden, "feed-forward width", {.min = 1, .max = 65'536});
  visitor.value("kernel", kernel, "frames that the convolution of a block sees; odd",
                {.min = 1, .max = 1'023});
  visitor.choice("convolution_norm", convolution_norm, "norm inside the convolution module",
                 nn::kInnerNormKinds);
  visitor.value("biases", biases, "biases in the products and convolutions of a block");
  visitor.value("dropout", dropout, "dropout probability", {.min = 0, .below = 1});
  visitor.choice("objective", objective, "heads that are trained: ctc, attention or both (joint)",
                 kConformerObjectives);
  visitor.value("ctc_weight", ctc_weight, "share of CTC in a joint loss", {.min = 0, .max = 1});
  visitor.value("decoder_layers", decoder_layers, "transformer blocks of the attention decoder",
                {.min = 0, .max = 200});
  visitor.value("label_smoothing", label_smoothing,
                "probability spread over all tokens in the decoder's loss", {.min = 0, .below = 1});
}

void ConformerOptions::validate() const {
  check_conformer_block(width, heads, kernel);
  check_subsampling_factor(subsampling_factor);
  if (objective == ConformerObjective::kJoint && (ctc_weight == 0.0 || ctc_weight == 1.0))
    refuse_settings(
        fmt::format("objective joint with ctc_weight {}, which trains one head only", ctc_weight),
        fmt::format("a weight between 0 and 1, or objective: {}",
                    ctc_weight == 0.0 ? "attention" : "ctc"));
  if (has_decoder() && decoder_layers == 0)
    refuse_settings(
        fmt::format("objective {} with 0 decoder_layers", name_of(objective, kConformerObjectives)),
        "decoder_layers of at least 1, or objective: ctc");
}

nn::AttentionDecoderOptions Conformer::decoder_options(const DataShape& shape,
                                                       at::ScalarType compute) const {
  return {.vocabulary = shape.vocabulary + 1,
          .layers = options_.decoder_layers,
          .width = options_.width,
          .heads = options_.heads,
          .hidden = options_.hidden,
          .seen_width = options_.width,
          .dropout = options_.dropout,
          .activation_dropout = options_.dropout,
          .loss = {.smoothing = options_.label_smoothing},
          .first_layer = options_.layers + (options_.has_ctc() ? 2 : 1),
          .compute = compute};
}

Conformer::Conformer(const ConformerOptions& options, const DataShape& shape,
                     const nn::ParameterAllocation& allocation, at::ScalarType compute)
    : Model(outline_of(options, shape)),
      options_(options),
      encoder_(store_, encoder_options(options), shape, allocation, compute) {
  if (options.has_ctc())
    ctc_.emplace(store_, "ctc",
                 nn::CtcHeadOptions{.width = options.width,
                                    .vocabulary = shape.vocabulary,
                                    .blank = shape.blank,
                                    .has_norm = false});
  if (options.has_decoder()) decoder_.emplace(store_, "decoder", decoder_options(shape, compute));
  store_.allocate(allocation);
}

data::ItemSize Conformer::size_of(const data::ExampleSize& item) const {
  return {.frames = encoder_.num_frames(item.rows), .labels = item.labels};
}

Losses Conformer::forward(const data::MicroBatch& batch, const nn::StepContext& step,
                          std::span<const float> weights, nn::Tape& tape) {
  at::Tensor encoded = encoder_.forward(batch, step, tape);
  Losses losses;
  if (decoder_) tape.shared().put(encoded);
  if (ctc_) {
    const std::vector<float> of_ctc = scaled(weights, weight_of_ctc(options_));
    kernels::Ctc::Result ctc =
        ctc_->forward(std::move(encoded), {.labels = batch.labels, .weights = of_ctc},
                      tape.context(step, ctc_layer()), tape);
    losses = ctc_losses(std::move(ctc));
  }
  if (decoder_)
    losses.terms.push_back(decoder_->forward(
        *batch.decoder, scaled(weights, weight_of_attention(options_)), tape.seen(), step, tape));
  return losses;
}

void Conformer::backward(const data::MicroBatch& batch, const nn::StepContext& step,
                         nn::Tape& tape) {
  encoder_.backward(backward_heads(batch, step, tape), step, tape);
}

at::Tensor Conformer::backward_heads(const data::MicroBatch& batch, const nn::StepContext& step,
                                     nn::Tape& tape) const {
  if (!decoder_) return ctc_->backward(tape.context(step, ctc_layer()), tape);
  decoder_->backward(*batch.decoder, tape.seen(), step, tape);
  if (ctc_) tape.shared().add_gradient(ctc_->backward(tape.context(step, ctc_layer()), tape));
  return tape.shared().take_gradient();
}

Recognition Conformer::recognise(const data::MicroBatch& batch) {
  nn::Tape tape;
  const at::Tensor encoded = encoder_.forward(batch, {.is_training = false}, tape);
  const Packing& frames = tape.packings().back();
  Recognition recognition;
  if (ctc_) {
    const MomentScope moment({.phase = Phase::kForward, .micro_batch = 0, .layer = ctc_layer()});
    recognition = ctc_recognition(ctc_->logits(encoded), frames, batch.labels, ctc_->blank());
  }
  if (!decoder_) return recognition;
  tape.shared().put(encoded);
  recognition.losses.terms.push_back(decoder_->evaluate(*batch.decoder, tape.seen()));
  const data::DecoderTokens& tokens = *outline().decoder;
  recognition.scorer = std::make_unique<AttentionScorer>(
      *decoder_, AttentionScorer::Audio{.encoded = encoded, .packing = frames},
      AttentionScorer::Tokens{.prompts = prompts_of(batch.labels, tokens), .end = tokens.end});
  return recognition;
}

}  // namespace sotto::models
