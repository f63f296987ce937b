#include "cli/commands/run_options.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/data/text/tokenizer.h"
#include "sotto/models/mask_checks.h"
#include "sotto/train/checkpoint/run_name.h"
#include "sotto/train/run/resume.h"
#include "sotto/train/step/model_keys.h"

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

constexpr plan::OpenChoices kNothingOpen{.numerics = false,
                                         .state = false,
                                         .tier = false,
                                         .max_frames = false,
                                         .micro_batch = false,
                                         .loss_rows = false,
                                         .loader_threads = false,
                                         .cache = false,
                                         .checkpoint_seconds = false};

bool is_same_budget(const train::RunConfig& a, const train::RunConfig& b) {
  return a.memory == b.memory && a.device == b.device;
}

// What the planner decides again where a run goes on: at another budget, or on another device, what
// a configuration leaves open; not the numerics, which are the run's own.
plan::OpenChoices open_on_resume(const ReadConfig& read, const train::RunConfig& before,
                                 bool has_configuration) {
  if (is_same_budget(before, read.config) || !has_configuration) return kNothingOpen;
  plan::OpenChoices open = read.open;
  open.numerics = false;
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

namespace {

// What is named by an option and by --set too, or by another tool's name of it: one of them would
// not count.
void check_named_once(const RunOptions& options) {
  ConfigNode tree = load_overrides(options.overrides);
  train::resolve_aliases(tree);
  struct Named {
    std::string value;
    const char* option;
    std::vector<std::string_view> path;
  };
  for (const auto& [value, option, path] :
       {Named{options.model, "--model", {"model", "preset"}},
        Named{options.init_from, "--init-from", {"init_from"}},
        Named{options.train, "--train", {"data", "train"}},
        Named{options.dev, "--dev", {"data", "dev"}}, Named{options.memory, "--memory", {"memory"}},
        Named{options.host_memory, "--host-memory", {"host_memory"}},
        Named{options.device, "--device", {"device"}},
        Named{options.max_steps > 0 ? fmt::format("{}", options.max_steps) : "",
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

}  // namespace

NamedConfig name_run_config(const RunOptions& options) {
  check_named_once(options);
  NamedConfig named;
  std::vector<std::string> overrides = options.overrides;
  if (!options.model.empty()) {
    named.model = choose_model(options.model);
    for (const std::string& note : named.model->notes) spdlog::info("{}: {}", options.model, note);
    overrides.insert(overrides.begin(), "model.preset=" + named.model->options.preset);
  }
  named.tree =
      options.config.empty() ? load_overrides(overrides) : load_config(options.config, overrides);
  named.request = train::resolve_aliases(named.tree);
  named.open = open_choices(named.tree);
  return named;
}

ReadConfig read_run_config(const RunOptions& options, const NamedConfig& named,
                           const std::optional<fs::path>& checkpoint) {
  train::RunConfig config;
  std::optional<train::RunConfig> before;
  if (checkpoint) {
    before = train::read_checkpoint(*checkpoint).config;
    config = train::resumed_config(*before, named.tree);
  } else if (named.model) {
    // Its settings stand for the defaults of the configuration, whose own preset does not count.
    config.model = named.model->options;
    if (named.model->reduction) config.reduction = *named.model->reduction;
  } else if (!options.init_from.empty() && options.config.empty()) {
    take_network(options.init_from, config);
  }
  if (!before) {
    train::check_model_keys(named.tree, options.model, config.model.family);
    const models::ModelOptions given = config.model;
    read_group(named.tree, as_group(config));
    models::check_masks(config.model, given);
  }
  const bool has_folder = named.model && named.model->folder;
  if (has_folder) {
    config.init_from = *named.model->folder;
    if (config.data.tokenizer.empty()) config.data.tokenizer = tokenizer_of(config.init_from);
  }
  if (!options.init_from.empty()) config.init_from = options.init_from;
  if (!options.train.empty()) config.data.train = options.train;
  if (!options.dev.empty()) config.data.dev = options.dev;
  if (!options.memory.empty()) config.memory = MemorySize::parse(options.memory);
  if (!options.host_memory.empty()) config.host_memory = MemorySize::parse(options.host_memory);
  if (!options.device.empty()) config.device = options.device;
  if (!before) train::check_effects(config);
  const std::string model_name =
      options.model.empty() ? config.model.preset : train::run_name_from(options.model);
  ReadConfig read{.config = std::move(config),
                  .open = named.open,
                  .inits_whole_model = has_folder && options.init_from.empty(),
                  .model_name = model_name};
  if (!read.config.model.is_language_model()) read.open.loss_rows = false;
  if (before) {
    read.open = open_on_resume(read, *before, !options.config.empty());
    // Limits of another budget are found anew, unless they are named again.
    if (!is_same_budget(*before, read.config) && named.tree.find("max_frames") == nullptr)
      read.config.max_frames = 0;
  }
  return read;
}

ReadConfig read_run_config(const RunOptions& options) {
  return read_run_config(options, name_run_config(options));
}

void check_has_data(const train::RunConfig& config) {
  if (!config.data.train.empty()) return;
  throw ConfigError({.attempted = "starting a run",
                     .found = "nothing to train on was named",
                     .hint = "Name one with --train, or as data.train in the configuration."});
}

}  // namespace sotto::cli
