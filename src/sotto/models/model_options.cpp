#include "sotto/models/model_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "sotto/core/nearest.h"

namespace sotto::models {

const Family* find_family_of_preset(std::string_view preset) {
  for (const Family& family : families())
    if (std::ranges::find(family.presets, preset) != family.presets.end()) return &family;
  return nullptr;
}

const Family* find_family_of_type(std::string_view model_type) {
  for (const Family& family : families())
    if (family.hugging_face && std::ranges::count(family.hugging_face->model_types, model_type) > 0)
      return &family;
  return nullptr;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Family& family : families())
    names.insert(names.end(), family.presets.begin(), family.presets.end());
  return names;
}

ModelOptions ModelOptions::of_preset(const std::string& name) {
  if (const Family* family = find_family_of_preset(name)) return {*family, name};
  const std::vector<std::string> names = preset_names();
  const std::optional<std::string> meant = nearest(name, names);
  throw ConfigError(
      {.attempted = fmt::format("finding the model '{}'", name),
       .found = "no preset, no folder and no Hugging Face id (org/name)",
       .expected = fmt::format("a preset ({}), a folder or an id", fmt::join(names, ", ")),
       .hint = meant ? fmt::format("Did you mean '{}'?", *meant) : std::string()});
}

ModelOptions ModelOptions::of_family(const Family& family) {
  return {family, family.presets.front()};
}

void ModelOptions::visit(OptionVisitor& visitor) {
  std::string preset = preset_;
  visitor.choice("preset", preset, "family and sizes of the network; the keys below override it",
                 preset_names());
  // A reader visits the preset first: its settings are then the defaults of what follows.
  if (preset != preset_) *this = of_preset(preset);
  family_->group(settings_).visit(visitor);
}

void ModelOptions::validate() const {
  std::any settings = settings_;
  family_->group(settings).validate();
}

void ModelOptions::check_effects(const ModelOptions& given) const {
  const bool is_same = given.family_ == family_ && given.preset_ == preset_;
  const ModelOptions initial = is_same ? given : of_preset(preset_);
  family_->check_effects(settings_, initial.settings_);
}

ModelOptions ModelOptions::with_one_layer() const {
  ModelOptions cut = *this;
  family_->keep_one_layer(cut.settings_);
  return cut;
}

int64_t ModelOptions::usual_vocabulary() const {
  const std::optional<data::PromptRules> rules = prompts();
  return rules ? rules->numbers.vocabulary : task().usual_vocabulary;
}

bool ModelOptions::has_loss_rows() const {
  std::any settings = settings_;
  return family_->loss_rows(settings) != nullptr;
}

int64_t ModelOptions::loss_rows() const {
  std::any settings = settings_;
  const int64_t* rows = family_->loss_rows(settings);
  return rows == nullptr ? 0 : *rows;
}

void ModelOptions::set_loss_rows(int64_t rows) {
  int64_t* const setting = family_->loss_rows(settings_);
  SOTTO_ASSERT(setting != nullptr, "{} has no loss_rows", family_->name);
  *setting = rows;
}

}  // namespace sotto::models
