// All families of networks. A program that links its own families(), such as the test of a new
// family, uses those instead.
#pragma once

#include <string_view>
#include <vector>

#include "sotto/models/family.h"

namespace sotto::models {

// Returns the families. One of them must have the preset "small", the default network.
const std::vector<Family>& families();

Family transformer_ctc_family();
Family conformer_family();
Family wav2vec2_family();
Family parakeet_family();
Family whisper_family();
Family decoder_lm_family();

// Return nullptr where no family has that preset, or that model_type in Hugging Face folders.
const Family* find_family_of_preset(std::string_view preset);
const Family* find_family_of_type(std::string_view model_type);

// Returns the presets of all families.
std::vector<std::string> preset_names();

}  // namespace sotto::models
