// The family of Whisper: its presets, and settings that the planner may suggest to save memory.
#include <string>
#include <vector>

#include "sotto/models/families.h"
#include "sotto/models/parts/mask_checks.h"
#include "sotto/models/whisper/whisper.h"
#include "sotto/models/whisper/whisper_hugging_face.h"

namespace sotto::models {

namespace {

using WhisperPreset = FamilySpec<WhisperOptions>::Preset;

constexpr TransformerSizes kTiny = {.layers = 4, .width = 384, .heads = 6, .hidden = 1536};
constexpr TransformerSizes kWhisperBase = {.layers = 6, .width = 512, .heads = 8, .hidden = 2048};
constexpr TransformerSizes kSmall = {.layers = 12, .width = 768, .heads = 12, .hidden = 3072};
constexpr TransformerSizes kMedium = {.layers = 24, .width = 1024, .heads = 16, .hidden = 4096};
constexpr TransformerSizes kWhisperLarge = {
    .layers = 32, .width = 1280, .heads = 20, .hidden = 5120};

WhisperPreset multilingual_preset(const std::string& name, const TransformerSizes& sizes) {
  WhisperOptions options;
  options.width = sizes.width;
  options.layers = options.decoder_layers = sizes.layers;
  options.heads = options.decoder_heads = sizes.heads;
  options.hidden = options.decoder_hidden = sizes.hidden;
  return {.name = name, .options = options, .pretrained = "openai/" + name};
}

WhisperPreset english_preset(const std::string& name, const TransformerSizes& sizes) {
  WhisperPreset preset = multilingual_preset(name, sizes);
  preset.options.tokens = data::WhisperNumbers::of_english();
  return preset;
}

// More features, and one more language.
WhisperPreset third_preset(const std::string& name, int64_t decoder_layers) {
  WhisperPreset preset = multilingual_preset(name, kWhisperLarge);
  preset.options.features.num_mels = 128;
  preset.options.tokens.vocabulary = 51'866;
  preset.options.decoder_layers = decoder_layers;
  return preset;
}

void keep_one_whisper_layer(WhisperOptions& options) {
  options.layers = options.decoder_layers = 1;
  options.freeze_layers = options.freeze_decoder_layers = 0;
  options.layer_drop = options.decoder_layer_drop = 0.0;
}

std::vector<Saving> whisper_savings(const WhisperOptions& options) {
  return {{.key = "window",
           .value = "utterance",
           .effect = "no silence is added to utterances shorter than 30 s"},
          {.key = "freeze_layers",
           .value = std::to_string(options.layers / 2),
           .effect = "half of the encoder's layers are not trained"},
          {.key = "freeze_encoder", .value = "true", .effect = "the encoder is not trained"}};
}

std::string describe_whisper(const WhisperOptions& options, const DataShape&) {
  return options.tokens.multilingual
             ? "A multilingual Whisper network: an encoder and an attention decoder"
             : "A Whisper network for English: an encoder and an attention decoder";
}

}  // namespace

Family whisper_family() {
  using Options = WhisperOptions;
  return make_family<Options>(
      {.name = "whisper",
       .task = kTranscription,
       .example = "configs/whisper.yaml",
       .presets = {multilingual_preset("whisper-tiny", kTiny),
                   english_preset("whisper-tiny.en", kTiny),
                   multilingual_preset("whisper-base", kWhisperBase),
                   english_preset("whisper-base.en", kWhisperBase),
                   multilingual_preset("whisper-small", kSmall),
                   english_preset("whisper-small.en", kSmall),
                   multilingual_preset("whisper-medium", kMedium),
                   english_preset("whisper-medium.en", kMedium),
                   multilingual_preset("whisper-large-v2", kWhisperLarge),
                   third_preset("whisper-large-v3", kWhisperLarge.layers),
                   third_preset("whisper-large-v3-turbo", 4)},
       .make = make_network<Whisper, Options>,
       .keep_one_layer = keep_one_whisper_layer,
       .describe = describe_whisper,
       .sample_rate = [](const Options& options) { return options.features.sample_rate; },
       .min_rows = [](const Options& options,
                      int64_t) { return WhisperFeatures::min_samples(options); },
       .max_rows = [](const Options& options, int64_t) { return options.window_samples(); },
       .prompts =
           [](const Options& options) {
             return data::PromptRules{.numbers = options.tokens, .max_tokens = options.max_tokens};
           },
       .check_effects = check_span_masks<Options>,
       .savings = whisper_savings,
       .loss_rows = [](Options& options) { return &options.loss_rows; },
       .reduction = Reduction::kTokens,
       .hugging_face = whisper_hugging_face()});
}

}  // namespace sotto::models
