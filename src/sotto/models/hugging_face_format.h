// What the formats of families have in common: the network that a Hugging Face folder or a `.nemo`
// archive describes, the contents of a config.json to be written, and helpers to read and write
// such files. hub/hugging_face.h reads and writes whole folders.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/config/json_settings.h"
#include "sotto/models/model_options.h"
#include "sotto/models/reduction.h"

namespace sotto::data {
class Tokenizer;
}

namespace sotto::models {

inline constexpr const char* kHubConfig = "config.json";
inline constexpr const char* kHubPreprocessor = "preprocessor_config.json";
inline constexpr const char* kHubProcessor = "processor_config.json";
inline constexpr const char* kHubGeneration = "generation_config.json";

struct HuggingFaceModel {
  std::filesystem::path folder;
  ModelOptions options;
  // Value of ctc_loss_reduction.
  Reduction reduction = Reduction::kSum;
  // Differences from the original model, one line each for the user.
  std::vector<std::string> notes;
};

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

// Opens a JSON file of a folder. Throws DataError where it cannot be read.
JsonSettings open_hub_config(const std::filesystem::path& path);
// Opens the settings of a folder's feature extractor as transformers locates them; none where it
// has none.
std::optional<JsonSettings> open_extractor(const std::filesystem::path& folder);
// Writes one JSON file.
void write_hub_json(const std::filesystem::path& path, const nlohmann::ordered_json& values);

}  // namespace sotto::models
