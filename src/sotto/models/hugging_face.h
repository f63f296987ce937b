// Hugging Face folders, and `.nemo` archives in their place (nemo.h): reads the settings of a
// network from its config.json and those of its feature extractor from processor_config.json or
// preprocessor_config.json, weights from any of its formats, and writes folders that transformers
// loads unchanged.
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

namespace sotto::data {
class Tokenizer;
}

namespace sotto::models {

inline constexpr const char* kHubConfig = "config.json";
inline constexpr const char* kHubPreprocessor = "preprocessor_config.json";
inline constexpr const char* kHubProcessor = "processor_config.json";

struct HuggingFaceModel {
  std::filesystem::path folder;
  ModelOptions options;
  // Value of ctc_loss_reduction.
  Reduction reduction = Reduction::kSum;
  // Differences from the original model, one line each for the user.
  std::vector<std::string> notes;
};

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

// Contents of config.json and the files beside it.
struct HuggingFaceConfig {
  const ModelOptions& model;
  const DataShape& shape;
  // The config.json that the network came with, whose unrelated keys are kept. Empty: none.
  std::string source = {};
  // Reduction used in training, and the type of the weights; absent: as in the source.
  std::optional<Reduction> reduction = std::nullopt;
  std::optional<at::ScalarType> weights = std::nullopt;
  // For families whose tokenizer transformers reads in another form than ours; null: its files are
  // copied from elsewhere.
  const data::Tokenizer* tokenizer = nullptr;
};

// Writes them for transformers; nothing for a network that it does not support. Throws DataError
// where they cannot be written.
void write_hugging_face_config(const std::filesystem::path& folder,
                               const HuggingFaceConfig& config);

// Helpers for the formats of families: open the settings of a folder's feature extractor as
// transformers locates them (none where it has none), and write one JSON file.
std::optional<JsonSettings> open_extractor(const std::filesystem::path& folder);
void write_hub_json(const std::filesystem::path& path, const nlohmann::ordered_json& values);

}  // namespace sotto::models
