#include "sotto/train/step/model_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"

namespace sotto::train {

namespace {

// The first parts of the keys: `features` of features.kind.
std::set<std::string> keys_of(models::Family family) {
  models::ModelOptions options;
  options.family = family;
  std::set<std::string> keys;
  for (const OptionInfo& info : list_options(options))
    keys.insert(info.key.substr(0, info.key.find('.')));
  return keys;
}

std::string_view name_of_family(models::Family family) {
  return name_of(family, models::kFamilies);
}

const char* recipe_of(models::Family family) {
  switch (family) {
    case models::Family::kTransformerCtc: return "configs/transformer_ctc.yaml";
    case models::Family::kWav2Vec2: return "configs/wav2vec2.yaml";
    case models::Family::kDecoderLm: return "configs/lm.yaml";
  }
  return "";
}

// The family of the tree's preset, if it names a preset that exists.
models::Family family_in(const ConfigNode& model, models::Family otherwise) {
  const ConfigNode* preset = model.find("preset");
  if (preset == nullptr || !preset->is_scalar()) return otherwise;
  const std::vector<std::string> names = models::preset_names();
  const bool is_known = std::ranges::find(names, preset->text) != names.end();
  return is_known ? models::ModelOptions::of_preset(preset->text).family : otherwise;
}

}  // namespace

void check_model_keys(const ConfigNode& tree, const std::string& named, models::Family family) {
  const ConfigNode* model = tree.find("model");
  if (model == nullptr || model->kind != ConfigNode::Kind::kMap) return;
  if (named.empty()) family = family_in(*model, family);
  const std::set<std::string> known = keys_of(family);
  std::vector<std::string> foreign;
  std::string_view owner;
  for (const ConfigNode& entry : model->children) {
    if (known.contains(entry.key)) continue;
    for (const auto& [name, other] : models::kFamilies) {
      if (!keys_of(other).contains(entry.key)) continue;
      foreign.push_back("model." + entry.key);
      owner = name;
      break;
    }
  }
  if (foreign.empty()) return;
  const std::string what = named.empty() ? "the network" : "--model " + named;
  throw ConfigError(
      {.attempted = fmt::format("reading {} for {}", tree.place.source, what),
       .found = fmt::format("{}, {} of {}", fmt::join(foreign, ", "),
                            foreign.size() == 1 ? "a setting" : "settings", owner),
       .expected = fmt::format("settings of {}, which {} is", name_of_family(family), what),
       .hint = fmt::format("Remove {} there, or begin with a configuration of that family: "
                           "--config {}.",
                           foreign.size() == 1 ? "it" : "them", recipe_of(family))});
}

}  // namespace sotto::train
