#include "model_choice.h"

#include <algorithm>
#include <filesystem>

#include "sotto/core/hub_cache.h"
#include "sotto/train/checkpoint.h"

namespace sotto::cli {

ModelChoice choose_model(const std::string& name) {
  const std::vector<std::string> presets = models::preset_names();
  const bool is_preset = std::ranges::find(presets, name) != presets.end();
  if (is_preset || !(std::filesystem::is_directory(name) || is_hub_id(name)))
    return {.options = models::ModelOptions::of_preset(name), .folder = {}, .notes = {}};
  const std::filesystem::path folder = models::find_model_folder(name);
  if (train::is_checkpoint(folder))
    train::check_checkpoint(folder, train::CheckpointPart::kNetwork);
  models::HuggingFaceModel found = models::read_hugging_face(folder);
  return {.options = std::move(found.options),
          .folder = std::move(found.folder),
          .reduction = found.reduction,
          .notes = std::move(found.notes)};
}

}  // namespace sotto::cli
