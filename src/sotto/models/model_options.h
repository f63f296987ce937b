// The registry of networks: which there are, their settings, and how one is made.
// docs/adding_a_model.md says what else a new one needs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/models/decoder_lm.h"
#include "sotto/models/model.h"
#include "sotto/models/transformer_ctc.h"
#include "sotto/models/wav2vec2_options.h"

namespace sotto::models {

enum class Family { kTransformerCtc, kWav2Vec2, kDecoderLm };

inline constexpr std::array kFamilies = {Named{"transformer_ctc", Family::kTransformerCtc},
                                         Named{"wav2vec2", Family::kWav2Vec2},
                                         Named{"decoder_lm", Family::kDecoderLm}};

struct ModelOptions {
  // Chooses the family and sets all of its settings; what is written besides it is then changed.
  std::string preset = "small";
  Family family = Family::kTransformerCtc;
  // That of the family counts.
  TransformerCtcOptions transformer_ctc = {};
  Wav2Vec2Options wav2vec2 = {};
  DecoderLmOptions decoder_lm = {};

  // Throws ConfigError for a name that is none.
  static ModelOptions of_preset(const std::string& name);

  void visit(OptionVisitor& visitor);
  void validate() const;

  // Of waveforms, in Hz.
  int64_t sample_rate() const;
  // The fewest rows of an utterance, samples or stored frames, that give a frame.
  int64_t min_rows(int64_t feature_dim) const;
  // The same network with a single layer.
  ModelOptions with_one_layer() const;
  bool is_language_model() const { return family == Family::kDecoderLm; }
};

// The names that `preset` may have, family after family.
std::vector<std::string> preset_names();

// Declares all parameters and allocates them; on Meta a dry one. `compute`: the type of
// activations.
std::unique_ptr<Model> make_model(const ModelOptions& options, const DataShape& shape,
                                  const nn::ParameterAllocation& allocation,
                                  at::ScalarType compute = at::kFloat);

}  // namespace sotto::models
