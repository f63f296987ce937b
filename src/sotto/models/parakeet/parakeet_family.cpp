// The family of FastConformers: its presets, and settings that the planner may suggest to save
// memory.
#include <optional>
#include <string>
#include <vector>

#include "sotto/models/families.h"
#include "sotto/models/option_checks.h"
#include "sotto/models/parakeet/parakeet.h"
#include "sotto/models/parakeet/parakeet_hugging_face.h"
#include "sotto/models/parts/mask_checks.h"

namespace sotto::models {

namespace {

using ParakeetPreset = FamilySpec<ParakeetOptions>::Preset;

ParakeetPreset released(const std::string& name, int64_t layers, ParakeetObjective objective) {
  ParakeetOptions options;
  options.layers = layers;
  options.objective = objective;
  return {.name = name, .options = options, .pretrained = "nvidia/" + name};
}

// Later networks: more features, no biases in the blocks, and no scaled input.
ParakeetPreset released_later(const std::string& name) {
  ParakeetPreset preset = released(name, 24, ParakeetObjective::kTdt);
  preset.options.features.num_mels = 128;
  preset.options.biases = false;
  preset.options.scale_input = false;
  return preset;
}

// A network that trains on a CPU in minutes.
ParakeetPreset tiny() {
  ParakeetOptions options;
  options.layers = 4;
  options.width = 128;
  options.heads = 4;
  options.hidden = 512;
  options.subsampling_channels = 32;
  options.objective = ParakeetObjective::kTdt;
  options.transducer.layers = 1;
  options.transducer.width = options.transducer.joint_width = 128;
  return {.name = "parakeet-tiny", .options = options};
}

std::string describe_parakeet(const ParakeetOptions& options, const DataShape&) {
  std::string encoder = "A FastConformer encoder over log-mel features with ";
  switch (options.objective) {
    case ParakeetObjective::kCtc: return encoder + "a CTC head";
    case ParakeetObjective::kRnnt: return encoder + "a transducer (RNN-T)";
    case ParakeetObjective::kTdt: return encoder + "a transducer with durations (TDT)";
  }
  return encoder;
}

// Throws ConfigError for a setting of a head that this objective does not have.
void check_head(const ParakeetOptions& options, const ParakeetOptions& given) {
  const auto refuse = [&](const std::string& key, const char* objectives) {
    refuse_settings(
        fmt::format("{} with objective {}", key, name_of(options.objective, kParakeetObjectives)),
        fmt::format("objective: {}, or no setting of {}", objectives, key));
  };
  const TransducerOptions& head = options.transducer;
  const TransducerOptions& usual = given.transducer;
  if (!options.has_durations() &&
      (head.durations != usual.durations || head.sigma != usual.sigma || head.omega != usual.omega))
    refuse("durations, sigma or omega of transducer", "tdt");
  if (options.has_transducer()) return;
  if (options.loss_rows != given.loss_rows) refuse("loss_rows", "rnnt or tdt");
  const bool is_usual = head.layers == usual.layers && head.width == usual.width &&
                        head.joint_width == usual.joint_width && head.dropout == usual.dropout &&
                        head.joint_dropout == usual.joint_dropout &&
                        head.train_start == usual.train_start;
  if (!is_usual) refuse("transducer", "rnnt or tdt");
}

void keep_one_parakeet_layer(ParakeetOptions& options) {
  options.layers = 1;
  options.freeze_layers = 0;
  options.layer_drop = 0.0;
}

}  // namespace

Family parakeet_family() {
  using Options = ParakeetOptions;
  return make_family<Options>(
      {.name = "parakeet",
       .task = kTranscription,
       .example = "configs/parakeet.yaml",
       .presets = {released("parakeet-ctc-0.6b", 24, ParakeetObjective::kCtc),
                   released("parakeet-ctc-1.1b", 42, ParakeetObjective::kCtc),
                   released("parakeet-rnnt-0.6b", 24, ParakeetObjective::kRnnt),
                   released_later("parakeet-tdt-0.6b-v2"), released_later("parakeet-tdt-0.6b-v3"),
                   released("parakeet-tdt-1.1b", 42, ParakeetObjective::kTdt), tiny()},
       .make = make_network<Parakeet, Options>,
       .keep_one_layer = keep_one_parakeet_layer,
       .describe = describe_parakeet,
       .sample_rate = [](const Options& options) { return options.features.sample_rate; },
       .min_rows =
           [](const Options& options, int64_t feature_dim) {
             return SpeechFeatures::min_rows(options.features, feature_dim);
           },
       .check_effects =
           [](const Options& options, const Options& given) {
             check_spec_augment(options.spec_augment, given.spec_augment);
             check_head(options, given);
           },
       .savings = [](const Options& options) -> std::vector<Saving> {
         return {{.key = "freeze_layers",
                  .value = std::to_string(options.layers / 2),
                  .effect = "half of the layers are not trained"}};
       },
       .loss_rows =
           [](Options& options) { return options.has_transducer() ? &options.loss_rows : nullptr; },
       .split_dependence =
           [](const Options& options) { return split_dependence_of(options.convolution_norm); },
       .hugging_face = parakeet_hugging_face()});
}

}  // namespace sotto::models
