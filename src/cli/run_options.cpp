#include "run_options.h"

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "model_choice.h"
#include "sotto/core/config.h"
#include "sotto/core/error.h"
#include "sotto/data/tokenizer.h"
#include "sotto/models/mask_checks.h"
#include "sotto/train/checkpoint.h"
#include "sotto/train/model_keys.h"
#include "sotto/train/run_name.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

// Where --init-from names a checkpoint and nothing names a network, it is the checkpoint's.
void take_network(const std::string& init_from, train::RunConfig& config) {
  if (const std::optional<fs::path> found = train::find_checkpoint(init_from))
    config.model = train::read_checkpoint(*found).config.model;
}

// Whether a key is the planner's: not there, or `auto`, which is taken out.
bool take_open(ConfigNode* map, std::string_view key) {
  ConfigNode* const node = map == nullptr ? nullptr : map->find(key);
  if (node == nullptr) return true;
  if (!node->is_scalar() || node->text != "auto") return false;
  std::erase_if(map->children, [&](const ConfigNode& child) { return child.key == key; });
  return true;
}

// The tokenizer of a Hugging Face folder; empty where it has none.
fs::path tokenizer_of(const fs::path& folder) {
  if (const std::optional<fs::path> found = data::Tokenizer::find(folder)) return *found;
  if (!fs::exists(folder / "tokenizer.json")) return {};
  throw ConfigError({.attempted = fmt::format("taking the tokenizer of {}", folder.string()),
                     .found = "a tokenizer.json without a vocab.json",
                     .expected = "a vocab.json or a tokenizer.model",
                     .hint = "Name another with --set data.tokenizer=FILE: the head is then new."});
}

plan::OpenChoices open_choices(ConfigNode& tree) {
  plan::OpenChoices open;
  // A part that is set by itself belongs to the arithmetic that it was set for.
  open.numerics = take_open(&tree, "numerics") && tree.find("precision") == nullptr;
  open.state = take_open(tree.find("optimizer"), "state");
  open.tier = take_open(&tree, "tier");
  open.max_frames = take_open(&tree, "max_frames");
  open.micro_batch = take_open(&tree, "micro_batch");
  open.loss_rows = take_open(tree.find("model"), "loss_rows");
  open.loader_threads = take_open(tree.find("data"), "loader_threads");
  open.cache = take_open(tree.find("data"), "cache");
  open.checkpoint_seconds = take_open(&tree, "checkpoint_seconds");
  return open;
}

}  // namespace

void add_run_options(CLI::App& command, RunOptions& options) {
  command.add_option("--config", options.config, "Configuration, YAML or JSON");
  command.add_option("--set", options.overrides, "Override a setting: key.sub=value (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--model", options.model,
                     "Preset, folder of Hugging Face, or id in its cache");
  command.add_option("--init-from", options.init_from,
                     "Weights to begin with: a checkpoint, a run, a folder of Hugging Face or an "
                     "id in its cache (init_from)");
  command.add_option("--train", options.train, "Manifest to train on, or text (data.train)");
  command.add_option("--dev", options.dev, "The same to evaluate on (data.dev)");
  command.add_option("--memory", options.memory,
                     "Budget: 8GiB, 12GB, 90% (of what is free) or auto");
  command.add_option("--host-memory", options.host_memory,
                     "Host memory besides it, for a GPU or what is kept there: 2GiB or auto");
  command.add_option("--device", options.device, "What to run on: cpu, cuda or cuda:N");
}

ReadConfig read_run_config(const RunOptions& options, const std::optional<fs::path>& checkpoint) {
  std::vector<std::string> overrides = options.overrides;
  std::optional<ModelChoice> choice;
  train::RunConfig config;
  if (!options.model.empty()) {
    choice = choose_model(options.model);
    for (const std::string& note : choice->notes) spdlog::info("{}: {}", options.model, note);
    // Its settings stand for the defaults of the configuration, whose own preset does not count.
    config.model = choice->options;
    if (choice->reduction) config.reduction = *choice->reduction;
    overrides.insert(overrides.begin(), "model.preset=" + choice->options.preset);
  }
  const bool names_network = choice || !options.config.empty() || checkpoint;
  if (!options.init_from.empty() && !names_network) take_network(options.init_from, config);
  fs::path file = options.config;
  if (file.empty() && checkpoint) file = *checkpoint / "config.yaml";
  ConfigNode tree = file.empty() ? load_overrides(overrides) : load_config(file, overrides);
  const train::AliasedRequest request = train::resolve_aliases(tree);
  train::check_model_keys(tree, options.model, config.model.family);
  plan::OpenChoices open = open_choices(tree);
  const models::ModelOptions given = config.model;
  read_group(tree, as_group(config));
  // A run that goes on keeps what it began with.
  if (!checkpoint) models::check_masks(config.model, given);
  if (!config.model.is_language_model()) open.loss_rows = false;
  if (choice && choice->folder) {
    config.init_from = *choice->folder;
    if (config.data.tokenizer.empty()) config.data.tokenizer = tokenizer_of(*choice->folder);
  }
  if (!options.init_from.empty()) config.init_from = options.init_from;
  if (!options.train.empty()) config.data.train = options.train;
  if (!options.dev.empty()) config.data.dev = options.dev;
  if (!options.memory.empty()) config.memory = MemorySize::parse(options.memory);
  if (!options.host_memory.empty()) config.host_memory = MemorySize::parse(options.host_memory);
  if (!options.device.empty()) config.device = options.device;
  const std::string model_name =
      options.model.empty() ? config.model.preset : train::run_name_from(options.model);
  return {.config = std::move(config),
          .open = open,
          .request = request,
          .inits_whole_model = choice && choice->folder && options.init_from.empty(),
          .model_name = model_name};
}

void check_has_data(const train::RunConfig& config) {
  if (!config.data.train.empty()) return;
  throw ConfigError({.attempted = "starting a run",
                     .found = "nothing to train on was named",
                     .hint = "Name one with --train, or as data.train in the configuration."});
}

}  // namespace sotto::cli
