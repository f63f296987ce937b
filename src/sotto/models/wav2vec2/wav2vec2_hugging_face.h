// wav2vec2 and XLS-R in Hugging Face folders: config.json and the settings of the feature
// extractor.
#pragma once

#include "sotto/models/family.h"

namespace sotto::models {

HuggingFaceFormat wav2vec2_hugging_face();

}  // namespace sotto::models
