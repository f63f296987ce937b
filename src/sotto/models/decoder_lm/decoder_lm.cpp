#include "sotto/models/decoder_lm/decoder_lm.h"

#include <ATen/ATen.h>

#include <array>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/models/families.h"
#include "sotto/models/option_checks.h"

namespace sotto::models {

namespace {

using device::MomentScope;
using device::Phase;
using nn::Context;

constexpr std::array kAttentionVariants = {Named{"tiled", kernels::Attention::Variant::kTiled},
                                           Named{"plain", kernels::Attention::Variant::kPlain}};
constexpr std::array kLogitVariants = {Named{"chunked", kernels::CrossEntropy::Variant::kChunked},
                                       Named{"whole", kernels::CrossEntropy::Variant::kWhole}};

nn::TransformerBlockOptions block_options(const DecoderLmOptions& options) {
  return {.width = options.width,
          .hidden = options.hidden,
          .attention = {.num_heads = options.heads,
                        .left = options.attention_left < 0 ? std::nullopt
                                                           : std::optional(options.attention_left),
                        .right = 0,
                        .variant = options.attention},
          .dropout = options.dropout,
          .activation_dropout = options.dropout,
          .activation = options.activation,
          .norm = options.norm,
          .num_layers = options.layers};
}

kernels::CrossEntropy::Options loss_options(const DecoderLmOptions& options, const DataShape& shape,
                                            at::ScalarType compute) {
  kernels::CrossEntropy::Options loss{.smoothing = options.label_smoothing,
                                      .variant = options.logits};
  if (options.loss_rows > 0) {
    const auto entry_bytes = static_cast<int64_t>(c10::elementSize(compute));
    loss.chunk_bytes = options.loss_rows * shape.vocabulary * entry_bytes;
  }
  return loss;
}

nn::ParameterSpec table_spec(std::string name, const DataShape& shape, int64_t width) {
  return {.name = std::move(name),
          .shape = {shape.vocabulary, width},
          .deviation = nn::TokenEmbedding::kDeviation};
}

Outline outline_of(const DecoderLmOptions& options) {
  Outline outline{.layers = {}, .loss_terms = {{.name = "cross_entropy"}}};
  outline.add({.prefix = "layers", .num_blocks = options.layers, .others = {"head"}});
  return outline;
}

std::string describe_decoder_lm(const DecoderLmOptions&, const DataShape&) {
  return "A causal transformer language model";
}

void check_decoder_lm_rows(const DecoderLmOptions& options, const data::TextRows::Options& rows) {
  // Plain attention takes the squares of the lengths of segments, which differ from row to row.
  if (options.attention == kernels::Attention::Variant::kPlain && rows.separates_documents)
    throw ConfigError({.attempted = "setting up a language model",
                       .found = "model.attention: plain with separate documents",
                       .expected = "rows of one sequence each",
                       .hint = "Add --set data.separate_documents=false."});
  if (options.positions != nn::PositionKind::kLearned || rows.length <= options.max_tokens) return;
  throw ConfigError({.attempted = "setting up a language model",
                     .found = fmt::format("rows of {} tokens", rows.length),
                     .expected = fmt::format("at most model.max_tokens {}, for learned positions",
                                             options.max_tokens)});
}

}  // namespace

Family decoder_lm_family() {
  using Options = DecoderLmOptions;
  return make_family<Options>({.name = "decoder_lm",
                               .task = kLanguageModelling,
                               .example = "configs/lm.yaml",
                               .presets = {{.name = "decoder-lm"}},
                               .make = make_network<DecoderLm, Options>,
                               .keep_one_layer = [](Options& options) { options.layers = 1; },
                               .describe = describe_decoder_lm,
                               .check_rows = check_decoder_lm_rows,
                               .loss_rows =
                                   [](Options& options) {
                                     const bool is_chunked =
                                         options.logits == kernels::CrossEntropy::Variant::kChunked;
                                     return is_chunked ? &options.loss_rows : nullptr;
                                   }});
}

void DecoderLmOptions::visit(OptionVisitor& visitor) {
  visitor.value("layers", layers, "transformer blocks", {.min = 1, .max = 200});
  visitor.value("width", width, "values per token", {.min = 2, .max = 16'384});
  visitor.value("heads", heads, "attention heads; must divide the width", {.min = 1, .max = 256});
  visitor.value("hidden", hidden, "feed-forward width", {.min = 1, .max = 65'536});
  visitor.value("dropout", dropout, "dropout probability", {.min = 0, .below = 1});
  visitor.choice("activation", activation, "activation of the feed-forward parts",
                 nn::kActivations);
  visitor.choice("norm", norm, "kind of normalisation", nn::kNormKinds);
  visitor.choice("positions", positions, "position encoding", nn::kPositionKinds);
  visitor.value("max_tokens", max_tokens, "number of learned positions: the longest row of text",
                {.min = 1, .max = 1'000'000});
  visitor.value("tied", tied, "share weights between the embedding and the output");
  visitor.value("attention_left", attention_left,
                "preceding tokens that a token attends to; -1: all", {.min = -1});
  visitor.choice("attention", attention,
                 "tiled, or plain: stores all scores of a row, for comparison", kAttentionVariants);
  visitor.choice("logits", logits, "chunked, or whole: stores all logits at once, for comparison",
                 kLogitVariants);
  visitor.value("label_smoothing", label_smoothing,
                "label smoothing: probability spread over all entries", {.min = 0, .max = 1});
  visitor.value("loss_rows", loss_rows,
                "tokens whose logits are computed at a time; 0: 52 MiB of logits",
                {.min = 0, .max = 1'000'000'000});
}

void DecoderLmOptions::validate() const {
  check_heads(width, heads);
  if (width % 2 != 0 && positions == nn::PositionKind::kSinusoidal)
    refuse_settings(fmt::format("sinusoidal positions with a width of {}", width), "an even width");
  if (logits == kernels::CrossEntropy::Variant::kWhole && loss_rows > 0)
    refuse_settings(fmt::format("loss_rows {} with logits: whole", loss_rows),
                    "loss_rows 0, or logits: chunked");
}

DecoderLm::DecoderLm(const DecoderLmOptions& options, const DataShape& shape,
                     const nn::ParameterAllocation& allocation, at::ScalarType compute)
    : Model(outline_of(options)),
      options_(options),
      table_(store_.declare(table_spec("embedding.weight", shape, options.width))),
      output_(options.tied ? table_
                           : store_.declare(table_spec("head.weight", shape, options.width))),
      embedding_(store_, table_, "positions",
                 {.positions = {.kind = options.positions,
                                .width = options.width,
                                .max_frames = options.max_tokens},
                  .dropout = options.dropout,
                  .compute = compute}),
      blocks_(store_, "layers", {.block = block_options(options)}),
      head_(store_, "head", output_,
            {.width = options.width,
             .norm = options.norm,
             .loss = loss_options(options, shape, compute)}) {
  store_.allocate(allocation);
}

Losses DecoderLm::forward(const data::MicroBatch& batch, const nn::StepContext& step,
                          std::span<const float> weights, nn::Tape& tape) {
  at::Tensor x = decode(batch, step, tape);
  const Context context{.step = step, .packing = batch.packing, .layer = head_tape()};
  return {.terms = {head_.forward(std::move(x), {.targets = batch.labels, .weights = weights},
                                  context, tape)}};
}

void DecoderLm::backward(const data::MicroBatch& batch, const nn::StepContext& step,
                         nn::Tape& tape) {
  const Context context{.step = step, .packing = batch.packing, .layer = head_tape()};
  at::Tensor dx = head_.backward(context, tape);
  dx = blocks_.backward(std::move(dx), context, tape);
  embedding_.backward(std::move(dx), batch.values, context);
}

Recognition DecoderLm::recognise(const data::MicroBatch& batch) {
  nn::Tape tape;
  const at::Tensor x = decode(batch, {.is_training = false}, tape);
  const MomentScope moment({.phase = Phase::kForward, .micro_batch = 0, .layer = head_tape()});
  return {.losses = {.terms = {head_.evaluate(x, batch.labels, batch.packing)}}};
}

at::Tensor DecoderLm::logits(const data::MicroBatch& batch) {
  nn::Tape tape;
  return head_.logits(decode(batch, {.is_training = false}, tape));
}

at::Tensor DecoderLm::decode(const data::MicroBatch& batch, const nn::StepContext& step,
                             nn::Tape& tape) const {
  const Context context{.step = step, .packing = batch.packing, .layer = head_tape()};
  return blocks_.forward(embedding_.forward(batch.values, context), context, tape);
}

}  // namespace sotto::models
