// Hugging Face folders: the settings of a network from its config.json and those of its feature
// extractor from processor_config.json or preprocessor_config.json, weights from any of its files,
// and a folder that transformers loads as it is.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/config/json_settings.h"
#include "sotto/models/model_options.h"
#include "sotto/models/reduction.h"
#include "sotto/models/tensor_file.h"

namespace sotto::models {

inline constexpr const char* kHubConfig = "config.json";
inline constexpr const char* kHubPreprocessor = "preprocessor_config.json";

struct HuggingFaceModel {
  std::filesystem::path folder;
  ModelOptions options;
  // What its ctc_loss_reduction says.
  Reduction reduction = Reduction::kSum;
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
// The weights of a network that was loaded from a folder, each in the type that it has there.
std::vector<NamedTensor> weights_as_stored(const std::filesystem::path& folder, Model& model);
// Which tensors a folder may have or lack besides those of its network; none of either where its
// config.json is missing or of another program.
ImportRules hugging_face_rules(const std::filesystem::path& folder);

// The shape of a folder's head: its entries, and the blank. Throws DataError where it has none.
DataShape shape_of_hugging_face(const std::filesystem::path& folder);

// The config.json of a folder; empty where it has none.
std::string read_model_config(const std::filesystem::path& folder);

// What config.json and preprocessor_config.json are to say.
struct HuggingFaceConfig {
  const ModelOptions& model;
  const DataShape& shape;
  // The config.json that the network came with: what it says of other things stays. Empty: none.
  std::string source = {};
  // How it was trained here, and the type of its weights; absent: as the source says.
  std::optional<Reduction> reduction = std::nullopt;
  std::optional<at::ScalarType> weights = std::nullopt;
};

// Writes both for transformers; nothing for a network that it does not have. Throws DataError where
// they cannot be written.
void write_hugging_face_config(const std::filesystem::path& folder,
                               const HuggingFaceConfig& config);

// For the formats of families: the settings of a folder's feature extractor, where transformers
// finds them (nothing where it has none), and one file of JSON.
std::optional<JsonSettings> open_extractor(const std::filesystem::path& folder);
void write_hub_json(const std::filesystem::path& path, const nlohmann::ordered_json& values);

}  // namespace sotto::models
