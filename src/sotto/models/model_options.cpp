#include "sotto/models/model_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/nearest.h"
#include "sotto/kernels/features/log_mel.h"
#include "sotto/models/wav2vec2.h"

namespace sotto::models {

namespace {

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void append(std::vector<std::string>& to, std::vector<std::string> names) {
  to.insert(to.end(), std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names = transformer_ctc_presets();
  append(names, wav2vec2_presets());
  append(names, decoder_lm_presets());
  return names;
}

ModelOptions ModelOptions::of_preset(const std::string& name) {
  ModelOptions options;
  options.preset = name;
  if (holds(transformer_ctc_presets(), name)) {
    options.transformer_ctc = transformer_ctc_preset(name);
  } else if (holds(wav2vec2_presets(), name)) {
    options.family = Family::kWav2Vec2;
    options.wav2vec2 = wav2vec2_preset(name);
  } else if (holds(decoder_lm_presets(), name)) {
    options.family = Family::kDecoderLm;
    options.decoder_lm = decoder_lm_preset(name);
  } else {
    const std::vector<std::string> names = preset_names();
    const std::optional<std::string> meant = nearest(name, names);
    throw ConfigError(
        {.attempted = fmt::format("finding the model '{}'", name),
         .found = "no preset, no folder and no id of Hugging Face (org/name)",
         .expected = fmt::format("a preset ({}), or one of the others", fmt::join(names, ", ")),
         .hint = meant ? fmt::format("Did you mean '{}'?", *meant) : std::string()});
  }
  return options;
}

void ModelOptions::visit(OptionVisitor& visitor) {
  const std::string before = preset;
  visitor.choice("preset", preset, "family and sizes of the network; keys below change single ones",
                 preset_names());
  // A reader meets the preset first: its settings are then the defaults of what follows.
  if (preset != before) *this = of_preset(preset);
  switch (family) {
    case Family::kTransformerCtc: return transformer_ctc.visit(visitor);
    case Family::kWav2Vec2: return wav2vec2.visit(visitor);
    case Family::kDecoderLm: return decoder_lm.visit(visitor);
  }
}

void ModelOptions::validate() const {
  switch (family) {
    case Family::kTransformerCtc: return transformer_ctc.validate();
    case Family::kWav2Vec2: return wav2vec2.validate();
    case Family::kDecoderLm: return decoder_lm.validate();
  }
}

int64_t ModelOptions::sample_rate() const {
  return family == Family::kWav2Vec2 ? wav2vec2.sample_rate : transformer_ctc.features.sample_rate;
}

int64_t ModelOptions::min_rows(int64_t feature_dim) const {
  switch (family) {
    case Family::kTransformerCtc:
      return feature_dim > 0 ? 1 : kernels::LogMel::min_samples(transformer_ctc.features);
    case Family::kWav2Vec2:
      return nn::WaveEncoder::samples_a_frame(wav2vec2.conv_kernels, wav2vec2.conv_strides);
    case Family::kDecoderLm: return 1;
  }
  return 1;
}

ModelOptions ModelOptions::with_one_layer() const {
  ModelOptions cut = *this;
  cut.transformer_ctc.layers = 1;
  cut.wav2vec2.layers = 1;
  cut.wav2vec2.freeze_layers = 0;
  cut.wav2vec2.layer_drop = 0.0;
  cut.decoder_lm.layers = 1;
  return cut;
}

std::unique_ptr<Model> make_model(const ModelOptions& options, const DataShape& shape,
                                  const nn::ParameterAllocation& allocation,
                                  at::ScalarType compute) {
  switch (options.family) {
    case Family::kTransformerCtc:
      return std::make_unique<TransformerCtc>(options.transformer_ctc, shape, allocation, compute);
    case Family::kWav2Vec2:
      return std::make_unique<Wav2Vec2>(options.wav2vec2, shape, allocation, compute);
    case Family::kDecoderLm:
      return std::make_unique<DecoderLm>(options.decoder_lm, shape, allocation, compute);
  }
  SOTTO_ASSERT(false, "no such family");
  return nullptr;
}

}  // namespace sotto::models
