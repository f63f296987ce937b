// Resolves --model: a preset, a Hugging Face folder, or the id of one in the local cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sotto/models/hub/hugging_face.h"

namespace sotto::plan {

struct ModelChoice {
  models::ModelOptions options;
  // Folder of its weights; absent for a preset.
  std::optional<std::filesystem::path> folder;
  // Reduction of the losses of utterances to a step's loss, from its config.json.
  std::optional<models::Reduction> reduction = std::nullopt;
  // Differences from the original model, one line each.
  std::vector<std::string> notes;
};

// Throws ConfigError or DataError where there is no such model.
ModelChoice choose_model(const std::string& name);

}  // namespace sotto::plan
