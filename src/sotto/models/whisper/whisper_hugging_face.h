// Whisper in Hugging Face folders: config.json and the settings of the feature extractor.
#pragma once

#include "sotto/models/family.h"

namespace sotto::models {

HuggingFaceFormat whisper_hugging_face();

}  // namespace sotto::models
