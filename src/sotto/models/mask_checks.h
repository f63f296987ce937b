// Detects mask settings that have no effect, because the masks they configure are disabled.
#pragma once

#include "sotto/models/wav2vec2_options.h"
#include "sotto/nn/spec_augment.h"

namespace sotto::models {

// Both throw ConfigError for a mask setting without effect that differs from its default and from
// `given`, the initial settings of a preset or a Hugging Face folder.
void check_wav2vec2_masks(const Wav2Vec2Options& options, const Wav2Vec2Options& given);
void check_spec_augment(const nn::SpecAugmentOptions& options, const nn::SpecAugmentOptions& given);

}  // namespace sotto::models
