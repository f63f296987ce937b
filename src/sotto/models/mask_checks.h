// Settings of masks that cannot take effect, because the masks that they are about are off.
#pragma once

#include "sotto/models/wav2vec2_options.h"
#include "sotto/nn/spec_augment.h"

namespace sotto::models {

// Both throw ConfigError for a setting of masks without effect that is neither the usual one nor
// that of `given`, which the settings began with: a preset, or a Hugging Face folder.
void check_wav2vec2_masks(const Wav2Vec2Options& options, const Wav2Vec2Options& given);
void check_spec_augment(const nn::SpecAugmentOptions& options, const nn::SpecAugmentOptions& given);

}  // namespace sotto::models
