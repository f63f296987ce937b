#include "sotto/models/whisper/whisper_options.h"

#include "sotto/models/option_checks.h"

namespace sotto::models {

namespace {

constexpr RealRange kPart{.min = 0, .below = 1};

void visit_sizes(WhisperOptions& options, OptionVisitor& visitor) {
  constexpr IntRange kLayers{.min = 1, .max = 200};
  constexpr IntRange kHeads{.min = 1, .max = 256};
  constexpr IntRange kHidden{.min = 1, .max = 65'536};
  visitor.value("positions", options.positions, "most encoder frames of an utterance",
                {.min = 1, .max = 1'000'000});
  visitor.value("max_tokens", options.max_tokens,
                "most tokens of a transcript, with its prompt and its end",
                {.min = 5, .max = 1'000'000});
  visitor.value("width", options.width, "values per encoder frame and per token",
                {.min = 4, .max = 16'384});
  visitor.value("layers", options.layers, "transformer blocks of the encoder", kLayers);
  visitor.value("heads", options.heads, "attention heads of the encoder; must divide the width",
                kHeads);
  visitor.value("hidden", options.hidden, "feed-forward width of the encoder", kHidden);
  visitor.value("decoder_layers", options.decoder_layers, "transformer blocks of the decoder",
                kLayers);
  visitor.value("decoder_heads", options.decoder_heads,
                "attention heads of the decoder; must divide the width", kHeads);
  visitor.value("decoder_hidden", options.decoder_hidden, "feed-forward width of the decoder",
                kHidden);
}

void visit_masks(WhisperOptions& options, OptionVisitor& visitor) {
  visitor.value("mask", options.mask, "mask spans of frames and features in training");
  visitor.value("mask_time_probability", options.mask_time_probability, "fraction of frames masked",
                kPart);
  visitor.value("mask_time_length", options.mask_time_length, "frames per masked span",
                {.min = 1, .max = 10'000});
  visitor.value("mask_time_min", options.mask_time_min, "minimum number of masked time spans",
                {.min = 0, .max = 1'000});
  visitor.value("mask_feature_probability", options.mask_feature_probability,
                "fraction of features masked", kPart);
  visitor.value("mask_feature_length", options.mask_feature_length, "features per masked span",
                {.min = 1, .max = 10'000});
  visitor.value("mask_feature_min", options.mask_feature_min,
                "minimum number of masked feature spans", {.min = 0, .max = 1'000});
}

void check_frozen(const char* key, int64_t frozen, int64_t layers) {
  if (frozen > layers)
    refuse_settings(fmt::format("{} {} of {} layers", key, frozen, layers), "at most all of them");
}

}  // namespace

void WhisperOptions::visit(OptionVisitor& visitor) {
  visitor.group("features", features, "log-mel features of the waveform");
  visitor.choice("window", window,
                 "30s: silence is added to each utterance, as the released networks were trained; "
                 "utterance: nothing is added",
                 kWhisperWindows);
  visitor.group("tokens", tokens, "numbers of the tokenizer that the network is built for");
  visit_sizes(*this, visitor);
  visitor.value("dropout", dropout, "dropout probability after positions and the parts of a block",
                kPart);
  visitor.value("activation_dropout", activation_dropout,
                "dropout probability inside the feed-forward parts", kPart);
  visitor.value("layer_drop", layer_drop, "probability that a step skips a layer of the encoder",
                kPart);
  visitor.value("decoder_layer_drop", decoder_layer_drop,
                "probability that a step skips a layer of the decoder", kPart);
  visitor.value("label_smoothing", label_smoothing,
                "probability spread over all tokens in the loss", kPart);
  visit_masks(*this, visitor);
  visitor.value("freeze_encoder", freeze_encoder, "do not train the encoder");
  visitor.value("freeze_layers", freeze_layers,
                "number of first layers of the encoder not to train, with everything before them",
                {.min = 0, .max = 200});
  visitor.value("freeze_decoder_layers", freeze_decoder_layers,
                "number of first layers of the decoder not to train, with its embedding; needs "
                "freeze_encoder",
                {.min = 0, .max = 200});
  visitor.value("loss_rows", loss_rows,
                "tokens whose logits are computed at a time; 0: 52 MiB of logits", {.min = 0});
}

void WhisperOptions::validate() const {
  check_heads(width, heads);
  check_heads(width, decoder_heads);
  if (width % 2 != 0)
    refuse_settings(fmt::format("sinusoidal positions with a width of {}", width), "an even width");
  if (features.kind != kernels::LogMelKind::kWhisper)
    refuse_settings(fmt::format("features.kind {}", name_of(features.kind, kernels::kLogMelKinds)),
                    "whisper");
  if (tokens.start >= tokens.vocabulary || tokens.end >= tokens.vocabulary ||
      tokens.start == tokens.end)
    refuse_settings(fmt::format("tokens.start {} and tokens.end {} of {} entries", tokens.start,
                                tokens.end, tokens.vocabulary),
                    "two entries of the vocabulary");
  check_frozen("freeze_layers", freeze_layers, layers);
  check_frozen("freeze_decoder_layers", freeze_decoder_layers, decoder_layers);
  // A frozen layer has no backward, and every layer of the decoder attends to the encoder.
  if (freeze_decoder_layers > 0 && !freeze_encoder)
    refuse_settings(fmt::format("freeze_decoder_layers {} with an encoder that is trained",
                                freeze_decoder_layers),
                    "freeze_encoder: true");
}

}  // namespace sotto::models
