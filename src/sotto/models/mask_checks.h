// Settings of masks that cannot take effect, because the masks that they are about are off.
#pragma once

#include "sotto/models/model_options.h"

namespace sotto::models {

// Throws ConfigError for a setting of masks without effect that is neither the usual one nor that
// of `given`, which the settings began with: a preset, or a Hugging Face folder.
void check_masks(const ModelOptions& options, const ModelOptions& given);

}  // namespace sotto::models
