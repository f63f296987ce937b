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

// Returns the first components of the keys: `features` for features.kind.
std::set<std::string> keys_of(const models::Family& family) {
  std::set<std::string> keys;
  for (const OptionInfo& info : list_options(models::ModelOptions::of_family(family)))
    keys.insert(info.key.substr(0, info.key.find('.')));
  return keys;
}

// Returns the names of the families that have the key, as a list.
std::string owners_of(const std::string& key) {
  std::vector<std::string_view> names;
  for (const models::Family& family : models::families()) {
    if (keys_of(family).contains(key)) names.push_back(family.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns the family of the tree's preset, if it names an existing preset.
const models::Family* family_in(const ConfigNode& model) {
  const ConfigNode* preset = model.find("preset");
  if (preset == nullptr || !preset->is_scalar()) return nullptr;
  return models::find_family_of_preset(preset->text);
}

}  // namespace

void check_model_keys(const ConfigNode& tree, const std::string& named,
                      const models::Family& of_run) {
  const ConfigNode* model = tree.find("model");
  if (model == nullptr || model->kind != ConfigNode::Kind::kMap) return;
  const models::Family* const in_tree = named.empty() ? family_in(*model) : nullptr;
  const models::Family& family = in_tree != nullptr ? *in_tree : of_run;
  const std::set<std::string> known = keys_of(family);
  std::vector<std::string> foreign;
  for (const ConfigNode& entry : model->children) {
    if (known.contains(entry.key)) continue;
    const std::string owners = owners_of(entry.key);
    if (!owners.empty()) foreign.push_back(fmt::format("model.{} ({})", entry.key, owners));
  }
  if (foreign.empty()) return;
  const std::string what = named.empty() ? "the network" : "--model " + named;
  throw ConfigError(
      {.attempted = fmt::format("reading {} for {}", tree.location.source, what),
       .found =
           fmt::format("{} of other families: {}", foreign.size() == 1 ? "a setting" : "settings",
                       fmt::join(foreign, ", ")),
       .expected = fmt::format("settings of {}, which {} is", family.name, what),
       .hint = fmt::format("Remove {} there, or start from a configuration of that family: "
                           "--config {}.",
                           foreign.size() == 1 ? "it" : "them", family.example)});
}

}  // namespace sotto::train
