// OpenAI's checkpoints of Whisper in the place of Hugging Face folders: a file of torch.save with
// `dims` and `model_state_dict`. Settings come from the dims; weights keep one list of names,
// Hugging Face's, which openai_name() translates. Such a file has no tokenizer.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/models/files/tensor_file.h"
#include "sotto/models/hugging_face_format.h"

namespace sotto::models {

// Reads the settings of a network. Throws DataError for a file without the dims, or without one of
// them.
HuggingFaceModel read_openai(const std::filesystem::path& path);
DataShape shape_of_openai(const std::filesystem::path& path);

// Returns OpenAI's name of a tensor: "encoder.blocks.0.attn.query.weight" of
// "model.encoder.layers.0.self_attn.q_proj.weight".
std::string openai_name(std::string_view name);
std::vector<NamedTensor> in_openai_names(std::vector<NamedTensor> weights);

}  // namespace sotto::models
