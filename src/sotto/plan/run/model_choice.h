// What --model names: a preset, a folder of Hugging Face, or the id of one in the local cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sotto/models/hugging_face.h"

namespace sotto::plan {

struct ModelChoice {
  models::ModelOptions options;
  // Where its weights are; absent for a preset.
  std::optional<std::filesystem::path> folder;
  // How a step's loss is made of those of utterances, as its config.json says.
  std::optional<models::Reduction> reduction = std::nullopt;
  // What is otherwise here than there, each in one line.
  std::vector<std::string> notes;
};

// Throws ConfigError or DataError where there is no such model.
ModelChoice choose_model(const std::string& name);

}  // namespace sotto::plan
