// The family of wav2vec2 and XLS-R: its presets, and settings that the planner may suggest to save
// memory.
#include <string>
#include <vector>

#include "sotto/models/families.h"
#include "sotto/models/parts/mask_checks.h"
#include "sotto/models/wav2vec2/wav2vec2.h"
#include "sotto/models/wav2vec2/wav2vec2_hugging_face.h"
#include "sotto/nn/fronts/wave_encoder.h"

namespace sotto::models {

namespace {

using Wav2Vec2Preset = FamilySpec<Wav2Vec2Options>::Preset;

constexpr TransformerSizes kBase = {.layers = 12, .width = 768, .heads = 12, .hidden = 3072};
constexpr TransformerSizes kLarge = {.layers = 24, .width = 1024, .heads = 16, .hidden = 4096};
constexpr TransformerSizes k1B = {.layers = 48, .width = 1280, .heads = 16, .hidden = 5120};
constexpr TransformerSizes k2B = {.layers = 48, .width = 1920, .heads = 16, .hidden = 7680};

Wav2Vec2Preset older_preset(const std::string& name, const TransformerSizes& sizes) {
  Wav2Vec2Options options;
  options.layers = sizes.layers;
  options.width = sizes.width;
  options.heads = sizes.heads;
  options.hidden = sizes.hidden;
  return {.name = name, .options = options, .pretrained = "facebook/" + name};
}

// Common to the newer models: norms first, a norm on every convolution, biases.
Wav2Vec2Preset stable_preset(const std::string& name, const TransformerSizes& sizes) {
  Wav2Vec2Preset preset = older_preset(name, sizes);
  preset.options.norm_first = true;
  preset.options.conv_bias = true;
  preset.options.conv_norm = nn::WaveNormKind::kLayer;
  return preset;
}

Wav2Vec2Preset xls_r_preset(const std::string& name, const TransformerSizes& sizes) {
  Wav2Vec2Preset preset = stable_preset(name, sizes);
  preset.pretrained = "facebook/wav2vec2-" + name;
  return preset;
}

void keep_one_wav2vec2_layer(Wav2Vec2Options& options) {
  options.layers = 1;
  options.freeze_layers = 0;
  options.layer_drop = 0.0;
}

std::vector<Saving> wav2vec2_savings(const Wav2Vec2Options& options) {
  return {{.key = "freeze_feature_encoder",
           .value = "true",
           .effect = "the convolutions are not trained"},
          {.key = "freeze_layers",
           .value = std::to_string(options.layers / 2),
           .effect = "half of the layers are not trained"}};
}

}  // namespace

Family wav2vec2_family() {
  using Options = Wav2Vec2Options;
  return make_family<Options>(
      {.name = "wav2vec2",
       .task = kTranscription,
       .example = "configs/wav2vec2.yaml",
       .presets = {older_preset("wav2vec2-base", kBase), older_preset("wav2vec2-large", kLarge),
                   stable_preset("wav2vec2-large-lv60", kLarge), xls_r_preset("xls-r-300m", kLarge),
                   xls_r_preset("xls-r-1b", k1B), xls_r_preset("xls-r-2b", k2B)},
       .make = make_network<Wav2Vec2, Options>,
       .keep_one_layer = keep_one_wav2vec2_layer,
       .describe = [](const Options&, const DataShape&) -> std::string {
         return "A wav2vec 2.0 network with a CTC head";
       },
       .sample_rate = [](const Options& options) { return options.sample_rate; },
       .min_rows =
           [](const Options& options, int64_t) {
             return nn::WaveEncoder::samples_per_frame(options.conv_kernels, options.conv_strides);
           },
       .check_effects = check_span_masks<Options>,
       .savings = wav2vec2_savings,
       .hugging_face = wav2vec2_hugging_face()});
}

}  // namespace sotto::models
