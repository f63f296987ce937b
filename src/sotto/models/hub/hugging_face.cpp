#include "sotto/models/hub/hugging_face.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/core/config/json_settings.h"
#include "sotto/core/error.h"
#include "sotto/core/files/hub_cache.h"
#include "sotto/core/formats/nemo_archive.h"
#include "sotto/core/formats/weight_folder.h"
#include "sotto/models/hub/nemo.h"
#include "sotto/models/hub/openai.h"

namespace sotto::models {

namespace {

namespace fs = std::filesystem;

// Returns the format of a folder's network. Throws ConfigError where no family has its model_type.
const HuggingFaceFormat& format_of(const JsonSettings& config) {
  const auto type = config.get<std::string>("model_type", "");
  if (const Family* family = find_family_of_type(type)) return *family->hugging_face;
  std::vector<std::string_view> known;
  for (const Family& family : families())
    if (family.hugging_face)
      std::ranges::copy(family.hugging_face->model_types, std::back_inserter(known));
  config.refuse(fmt::format("\"model_type\": \"{}\"", type),
                fmt::format("{} (XLS-R is of the type wav2vec2)", fmt::join(known, ", ")));
}

// Converts through the settings reader, which validates each value.
HuggingFaceModel checked(HuggingFaceModel model) {
  try {
    model.options = read_options<ModelOptions>(write_options(model.options));
  } catch (const ConfigError& error) {
    const fs::path file = fs::is_directory(model.folder) ? model.folder / kHubConfig : model.folder;
    throw ConfigError({.attempted = fmt::format("reading the model of {}", file.string()),
                       .found = error.what(),
                       .expected = "a network that can be built"});
  }
  return model;
}

}  // namespace

fs::path find_model_folder(std::string_view name) {
  if (is_nemo_file(name) || is_openai_file(name)) return name;
  const fs::path folder = fs::is_directory(name) ? fs::path(name) : find_hub_folder(name);
  return find_nemo_in(folder).value_or(folder);
}

HuggingFaceModel read_hugging_face(const fs::path& folder) {
  if (is_nemo_file(folder)) return read_nemo(folder);
  if (is_openai_file(folder)) return checked(read_openai(folder));
  const JsonSettings config = open_hub_config(folder / kHubConfig);
  return checked(format_of(config).read(config, folder));
}

ImportRules hugging_face_rules(const fs::path& folder) {
  if (is_nemo_file(folder)) return nemo_rules();
  if (is_openai_file(folder)) return {};
  if (!fs::exists(folder / kHubConfig)) return {};
  const JsonSettings config = open_hub_config(folder / kHubConfig);
  const Family* family = find_family_of_type(config.get<std::string>("model_type", ""));
  return family == nullptr ? ImportRules{} : family->hugging_face->rules();
}

std::vector<std::string> load_hugging_face(const fs::path& folder, Model& model) {
  return notes_of(import_tensors(WeightFolder::open(folder),
                                 names_in(folder, model.named_weights()),
                                 hugging_face_rules(folder)));
}

std::vector<NamedTensor> weights_as_stored(const fs::path& folder, Model& model) {
  std::vector<NamedTensor> weights = model.named_weights();
  const std::vector<NamedTensor> stored =
      in_types_of(WeightFolder::open(folder), names_in(folder, weights),
                  hugging_face_rules(folder).optional_prefix);
  for (size_t i = 0; i < weights.size(); ++i) weights[i].tensor = stored[i].tensor;
  return weights;
}

std::vector<NamedTensor> names_in(const fs::path& folder, std::vector<NamedTensor> weights) {
  if (is_nemo_file(folder)) return in_nemo_names(std::move(weights));
  return is_openai_file(folder) ? in_openai_names(std::move(weights)) : std::move(weights);
}

DataShape shape_of_hugging_face(const fs::path& folder) {
  if (is_nemo_file(folder)) return shape_of_nemo(folder);
  if (is_openai_file(folder)) return shape_of_openai(folder);
  const JsonSettings config = open_hub_config(folder / kHubConfig);
  return format_of(config).shape(config, folder);
}

std::string read_model_config(const fs::path& folder) {
  if (!fs::exists(folder / kHubConfig)) return {};
  return open_hub_config(folder / kHubConfig).values().dump();
}

void write_hugging_face_config(const fs::path& folder, const HuggingFaceConfig& config) {
  const std::optional<HuggingFaceFormat>& format = config.model.family().hugging_face;
  if (format) format->write(folder, config);
}

}  // namespace sotto::models
