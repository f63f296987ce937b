#include "sotto/train/step/foreign_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace sotto::train {

namespace {

constexpr const char* kTraining = "training";

struct OtherName {
  std::string_view key;
  std::string_view ours;
};
// Below `data`.
constexpr std::array kOfData = {OtherName{"train_manifest", "train"},
                                OtherName{"train_manifest_path", "train"},
                                OtherName{"validation_manifest", "dev"},
                                OtherName{"val_manifest", "dev"},
                                OtherName{"val_manifest_path", "dev"},
                                OtherName{"eval_manifest", "dev"},
                                OtherName{"dev_manifest", "dev"},
                                OtherName{"max_duration", "max_seconds"},
                                OtherName{"min_duration", "min_seconds"},
                                OtherName{"num_workers", "loader_threads"},
                                OtherName{"dataloader_num_workers", "loader_threads"}};
// Below `model`, and at the top with another name.
constexpr std::array kOfModel = {std::string_view("name"),
                                 std::string_view("pretrained_model_name_or_path"),
                                 std::string_view("model_name_or_path")};
// Settings of networks with a transducer and a CTC head.
constexpr std::array kOfHybrids = {std::string_view("aux_ctc"), std::string_view("ctc_loss_weight"),
                                   std::string_view("aux_ctc_weight")};

ConfigNode* map_of(ConfigNode& root, std::string_view key) {
  ConfigNode* const node = root.find(key);
  return node != nullptr && node->kind == ConfigNode::Kind::kMap ? node : nullptr;
}

std::optional<ConfigNode> take(ConfigNode* map, std::string_view key) {
  if (map == nullptr || map->kind != ConfigNode::Kind::kMap) return std::nullopt;
  const auto found = std::ranges::find(map->children, key, &ConfigNode::key);
  if (found == map->children.end()) return std::nullopt;
  ConfigNode node = std::move(*found);
  map->children.erase(found);
  return node;
}

// Adds an entry that was called `from`.
void put(ConfigNode& map, ConfigNode node, const std::string& from) {
  if (map.find(node.key) != nullptr)
    refuse(node.key_location, {.found = fmt::format("{} and {}", from, node.key),
                               .expected = "one of them: they mean the same"});
  add_entry(map, std::move(node));
}

const std::string& text_of(const ConfigNode& node, const char* expected) {
  if (!node.is_scalar() || node.text.empty())
    refuse(node.location, {.found = fmt::format("{} is {}", node.key, describe_value(node)),
                           .expected = expected});
  return node.text;
}

void open_training(ConfigNode& root) {
  std::optional<ConfigNode> training = take(&root, kTraining);
  if (!training || training->kind == ConfigNode::Kind::kEmpty) return;
  if (training->kind != ConfigNode::Kind::kMap)
    refuse(training->location,
           {.found = fmt::format("{} is {}", kTraining, describe_value(*training)),
            .expected = "a group of settings"});
  for (ConfigNode& child : training->children) {
    const std::string from = fmt::format("{}.{}", kTraining, child.key);
    put(root, std::move(child), from);
  }
}

bool is_zero(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::kEmpty ||
         (node.is_scalar() && !node.text.empty() &&
          node.text.find_first_not_of("0.") == std::string::npos);
}

// A weight of 0, or nothing, is a network with one head.
void check_heads(ConfigNode& root) {
  for (ConfigNode* const map : {&root, map_of(root, "model")}) {
    for (const std::string_view key : kOfHybrids) {
      const std::optional<ConfigNode> found = take(map, key);
      if (!found || is_zero(*found)) continue;
      refuse(found->key_location,
             {.found = fmt::format("{}, a setting of hybrid networks, which have a transducer and "
                                   "a CTC head",
                                   key),
              .expected = "one head: model.objective ctc, rnnt or tdt",
              .hint = fmt::format("Hybrid networks are not supported. Remove {} and choose the "
                                  "head to train with model.objective.",
                                  key)});
    }
  }
}

std::string take_model(ConfigNode& root) {
  std::optional<ConfigNode> named;
  const auto add = [&](std::optional<ConfigNode> node) {
    if (!node) return;
    if (named)
      refuse(node->key_location, {.found = fmt::format("{} and {}", node->key, named->key),
                                  .expected = "one of them: they mean the same"});
    named = std::move(node);
  };
  ConfigNode* const model = map_of(root, "model");
  for (const std::string_view key : kOfModel) add(take(model, key));
  add(take(&root, "model_name_or_path"));
  if (!named) return {};
  if (const ConfigNode* preset = model == nullptr ? nullptr : model->find("preset"))
    refuse(preset->key_location, {.found = fmt::format("{} and preset", named->key),
                                  .expected = "one of them: they mean the same"});
  return text_of(*named, "a preset, a Hugging Face folder, or an id in the local cache");
}

void open_model(ConfigNode& root) {
  ConfigNode* const model = map_of(root, "model");
  if (std::optional<ConfigNode> node = take(model, "gradient_checkpointing"))
    put(root, std::move(*node), "model.gradient_checkpointing");
}

void open_data(ConfigNode& root) {
  ConfigNode* const data = map_of(root, "data");
  for (const OtherName& renamed : kOfData) {
    std::optional<ConfigNode> node = take(data, renamed.key);
    if (!node) continue;
    const std::string from(renamed.key);
    node->key = renamed.ours;
    put(*data, std::move(*node), "data." + from);
  }
  // -1 is all of them in other tools, 0 in ours.
  for (ConfigNode* const map : {&root, data}) {
    ConfigNode* const samples = map == nullptr ? nullptr : map->find("max_samples");
    if (samples != nullptr && samples->is_scalar() && samples->text == "-1") samples->text = "0";
  }
}

void take_gpus(ConfigNode& root) {
  const std::optional<ConfigNode> node = take(&root, "num_gpus");
  if (!node) return;
  const std::string& count = text_of(*node, "0 or 1");
  if (count != "0" && count != "1")
    refuse(node->location, {.found = fmt::format("num_gpus is {}", count),
                            .expected = "0 or 1: training on several GPUs is not supported",
                            .hint = "Set num_gpus: 1; the effective batch stays the same with "
                                    "more accumulation steps."});
  const std::string ours = count == "1" ? "cuda" : "cpu";
  if (const ConfigNode* device = root.find("device")) {
    if (device->is_scalar() && device->text.starts_with(ours)) return;
    refuse(node->location,
           {.found = fmt::format("num_gpus: {} and device: {}", count, device->text),
            .expected = "the same device in both, or one of them"});
  }
  ConfigNode device = *node;
  device.kind = ConfigNode::Kind::kPlain;
  device.key = "device";
  device.text = ours;
  add_entry(root, std::move(device));
}

}  // namespace

GroupedRequest open_groups(ConfigNode& root) {
  GroupedRequest request;
  if (root.kind != ConfigNode::Kind::kMap) return request;
  open_training(root);
  check_heads(root);
  request.model = take_model(root);
  open_model(root);
  open_data(root);
  take_gpus(root);
  if (const std::optional<ConfigNode> node = take(&root, "output_dir"))
    request.folder = text_of(*node, "the folder of the run");
  return request;
}

}  // namespace sotto::train
