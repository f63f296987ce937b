// Hugging Face folders, and `.nemo` archives (nemo.h) or OpenAI's checkpoints (openai.h) in their
// place: reads the settings of a
// network from its config.json and those of its feature extractor from processor_config.json or
// preprocessor_config.json, weights from any of its formats, and writes folders that transformers
// loads unchanged.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/models/files/tensor_file.h"
#include "sotto/models/hugging_face_format.h"

namespace sotto::models {

// Returns the folder of `name`: itself, or that of a Hugging Face id in the local cache. A `.nemo`
// archive is returned in place of a folder, by its own name or that of a folder with only that.
// Throws DataError where there is none.
std::filesystem::path find_model_folder(std::string_view name);

// Reads the network of a folder. Throws DataError where config.json is missing or invalid,
// ConfigError where it requires something that is not supported.
HuggingFaceModel read_hugging_face(const std::filesystem::path& folder);

// Loads the folder's weights into the network. Pretraining checkpoints are accepted: tensors used
// only in pretraining are ignored, and the head keeps its initial values. Returns the tensors that
// were not loaded, one line each. Throws DataError where the weights belong to another network.
std::vector<std::string> load_hugging_face(const std::filesystem::path& folder, Model& model);
// Returns the weights of a network that was loaded from a folder, each in its type there.
std::vector<NamedTensor> weights_as_stored(const std::filesystem::path& folder, Model& model);
// Returns weights under the names that they have in this folder or archive.
std::vector<NamedTensor> names_in(const std::filesystem::path& folder,
                                  std::vector<NamedTensor> weights);
// Returns which tensors a folder may have in addition to those of its network, or lack; none of
// either where its config.json is missing or belongs to another program.
ImportRules hugging_face_rules(const std::filesystem::path& folder);

// Returns the shape of a folder's head: its entries, and the blank. Throws DataError where it has
// none.
DataShape shape_of_hugging_face(const std::filesystem::path& folder);

// Returns the config.json of a folder; empty where it has none.
std::string read_model_config(const std::filesystem::path& folder);

// Writes them for transformers; nothing for a network that it does not support. Throws DataError
// where they cannot be written.
void write_hugging_face_config(const std::filesystem::path& folder,
                               const HuggingFaceConfig& config);

}  // namespace sotto::models
