// Folders of Hugging Face: the settings of a network from its config.json, weights from any of its
// files, and a folder that transformers loads as it is.
//
//   config.json, preprocessor_config.json, vocab.json, model.safetensors
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/models/model_options.h"
#include "sotto/models/tensor_file.h"

namespace sotto::models {

struct HuggingFaceModel {
  std::filesystem::path folder;
  ModelOptions options;
  // What is otherwise here than there, each in one line for the user.
  std::vector<std::string> notes;
};

// The folder of `name`: itself, or that of a Hugging Face id in the local cache. Throws DataError
// where there is neither.
std::filesystem::path find_model_folder(std::string_view name);

// The network of a folder. Throws DataError where config.json is missing or broken, ConfigError
// where it asks for what there is not here.
HuggingFaceModel read_hugging_face(const std::filesystem::path& folder);

// The folder's weights into the network: a checkpoint of pretraining too, of which what it has for
// that alone is left out, and to which a new head is given. Returns what was not taken over, each
// in one line. Throws DataError where the weights are those of another network.
std::vector<std::string> load_hugging_face(const std::filesystem::path& folder, Model& model);
// What it may find otherwise.
ImportRules hugging_face_rules();

// The shape of a folder's head: its entries, and the blank. Throws DataError where it has none.
DataShape shape_of_hugging_face(const std::filesystem::path& folder);

// Writes config.json and preprocessor_config.json for transformers. Throws DataError where they
// cannot be written.
void write_hugging_face_config(const std::filesystem::path& folder, const ModelOptions& options,
                               const DataShape& shape);

}  // namespace sotto::models
