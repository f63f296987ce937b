#include "sotto/plan/run/run_description.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/models/parts/mask_checks.h"
#include "sotto/train/checkpoint/run_name.h"
#include "sotto/train/step/model_keys.h"

namespace sotto::plan {

namespace {

namespace fs = std::filesystem;

// Uses the checkpoint's network where --init-from names a checkpoint and no network is given.
void take_network(const std::string& init_from, train::RunConfig& config) {
  if (const std::optional<fs::path> found = train::find_checkpoint(init_from))
    config.model = train::read_checkpoint(*found).config.model;
}

// Whether a key is left to the planner: absent, or `auto`, which is removed.
bool take_open(ConfigNode* map, std::string_view key) {
  ConfigNode* const node = map == nullptr ? nullptr : map->find(key);
  if (node == nullptr) return true;
  if (!node->is_scalar() || node->text != "auto") return false;
  std::erase_if(map->children, [&](const ConfigNode& child) { return child.key == key; });
  return true;
}

// Returns the tokenizer of a Hugging Face folder; empty where it has none.
fs::path tokenizer_of(const fs::path& folder) {
  return data::Tokenizer::find(folder).value_or(fs::path());
}

OpenChoices open_choices(ConfigNode& tree) {
  OpenChoices open;
  // An individually set part belongs to the arithmetic that it was set for.
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

bool is_same_budget(const train::RunConfig& a, const train::RunConfig& b) {
  return a.memory == b.memory && a.device == b.device;
}

// Returns what the planner decides again for a resumed run: with another budget or device, the open
// settings of a configuration; never the numerics, which stay those of the run.
OpenChoices open_on_resume(const ReadConfig& read, const train::RunConfig& before,
                           bool has_configuration) {
  if (is_same_budget(before, read.config) || !has_configuration) return OpenChoices::none();
  OpenChoices open = read.open;
  open.numerics = false;
  return open;
}

// Throws for a setting given both by an option and by --set, or by another tool's name for it: one
// of them would be ignored.
void check_named_once(const RunDescription& run) {
  ConfigNode tree = load_overrides(run.settings);
  const train::AliasedRequest request = train::resolve_aliases(tree);
  if (!run.model.empty() && !request.model.empty())
    throw ConfigError(
        {.attempted = "reading the command line",
         .found = fmt::format("--model {} and --set model.name={}", run.model, request.model),
         .expected = "one of them"});
  struct Named {
    std::string value;
    const char* option;
    std::vector<std::string_view> path;
  };
  for (const auto& [value, option, path] :
       {Named{run.model, "--model", {"model", "preset"}},
        Named{run.init_from, "--init-from", {"init_from"}},
        Named{run.train, "--train", {"data", "train"}}, Named{run.dev, "--dev", {"data", "dev"}},
        Named{run.memory, "--memory", {"memory"}},
        Named{run.host_memory, "--host-memory", {"host_memory"}},
        Named{run.device, "--device", {"device"}},
        Named{run.max_steps > 0 ? fmt::format("{}", run.max_steps) : "",
              "--max-steps",
              {"max_steps"}}}) {
    const ConfigNode* node = value.empty() ? nullptr : &tree;
    for (const std::string_view key : path) node = node != nullptr ? node->find(key) : nullptr;
    if (node == nullptr) continue;
    throw ConfigError({.attempted = "reading the command line",
                       .found = fmt::format("{} {} and --set {}={}", option, value,
                                            fmt::join(path, "."), node->text),
                       .expected = "one of them"});
  }
}

// Returns the configuration of a new run, without its separate options.
train::RunConfig config_of_new_run(const RunDescription& run, const NamedConfig& named) {
  train::RunConfig config;
  if (named.model) {
    // The model's settings replace the defaults; the configuration's own preset is ignored.
    config.model = named.model->options;
    if (named.model->reduction) config.reduction = *named.model->reduction;
  } else if (!run.init_from.empty() && run.config.empty()) {
    take_network(run.init_from, config);
  }
  train::check_model_keys(named.tree, named.model_name, config.model.family());
  const models::ModelOptions given = config.model;
  read_group(named.tree, as_group(config));
  config.model.check_effects(given);
  return config;
}

void take_named(const RunDescription& run, const NamedConfig& named, train::RunConfig& config) {
  if (named.model && named.model->folder) {
    config.init_from = *named.model->folder;
    if (config.data.tokenizer.empty()) config.data.tokenizer = tokenizer_of(config.init_from);
  }
  if (!run.init_from.empty()) config.init_from = run.init_from;
  if (!run.train.empty()) config.data.train = run.train;
  if (!run.dev.empty()) config.data.dev = run.dev;
  if (!run.memory.empty()) config.memory = MemorySize::parse(run.memory);
  if (!run.host_memory.empty()) config.host_memory = MemorySize::parse(run.host_memory);
  if (!run.device.empty()) config.device = run.device;
  if (run.max_steps > 0) config.max_steps = run.max_steps;
}

}  // namespace

NamedConfig name_config(const RunDescription& run, const train::Note& noted) {
  check_named_once(run);
  NamedConfig named;
  named.tree =
      run.config.empty() ? load_overrides(run.settings) : load_config(run.config, run.settings);
  named.request = train::resolve_aliases(named.tree);
  named.model_name = run.model.empty() ? named.request.model : run.model;
  if (!named.model_name.empty()) {
    named.model = choose_model(named.model_name);
    for (const std::string& note : named.model->notes)
      if (noted) noted(fmt::format("{}: {}", named.model_name, note));
    // It replaces the file's own; --set cannot name another.
    apply_override(named.tree, "model.preset=" + named.model->options.preset());
  }
  named.open = open_choices(named.tree);
  return named;
}

ReadConfig read_config(const RunDescription& run, const NamedConfig& named,
                       const std::optional<fs::path>& checkpoint) {
  std::optional<train::RunConfig> before;
  if (checkpoint) before = train::read_checkpoint(*checkpoint).config;
  ReadConfig read{
      .config = before ? train::resumed_config(*before, named.tree) : config_of_new_run(run, named),
      .open = named.open,
      .inits_whole_model = named.model && named.model->folder && run.init_from.empty(),
      .model_name = {}};
  train::RunConfig& config = read.config;
  take_named(run, named, config);
  read.model_name =
      named.model_name.empty() ? config.model.preset() : train::run_name_from(named.model_name);
  train::check_stage_effects(config);
  if (!config.model.has_loss_rows()) read.open.loss_rows = false;
  if (!before) {
    train::check_effects(config);
    return read;
  }
  read.open = open_on_resume(read, *before, !run.config.empty());
  // Limits of another budget are found again, unless they are given explicitly.
  if (!is_same_budget(*before, config) && named.tree.find("max_frames") == nullptr)
    config.max_frames = 0;
  return read;
}

void check_has_data(const train::RunConfig& config) {
  if (!config.data.train.empty()) return;
  throw ConfigError({.attempted = "starting a run",
                     .found = "no training data was given",
                     .hint = "Name it with --train, or as data.train in the configuration."});
}

}  // namespace sotto::plan
