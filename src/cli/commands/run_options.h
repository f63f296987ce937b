// The options that name a run, common to the commands that plan, try or do one, and the
// configuration that they make together with its file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands/model_choice.h"
#include "sotto/core/config/config_tree.h"
#include "sotto/plan/planner.h"
#include "sotto/train/step/config_aliases.h"
#include "sotto/train/step/run_config.h"

namespace CLI {
class App;
}

namespace sotto::cli {

struct RunOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string model;
  std::string init_from;
  std::string train;
  std::string dev;
  std::string memory;
  std::string host_memory;
  std::string device;
  // Where a command has it; 0: not named.
  int64_t max_steps = 0;
};

void add_run_options(CLI::App& command, RunOptions& options);

// What the user named, not read yet: the file, with what the options lay over it.
struct NamedConfig {
  ConfigNode tree;
  // What the user left to the planner: what is not named, or `auto`.
  plan::OpenChoices open;
  // What keys of other tools asked for.
  train::AliasedRequest request;
  std::optional<ModelChoice> model;
};

struct ReadConfig {
  train::RunConfig config;
  // What the planner is to decide.
  plan::OpenChoices open;
  // The weights to begin with are those of --model.
  bool inits_whole_model = false;
  // What numbered folders of runs without a name begin with.
  std::string model_name;
};

// Throws ConfigError and DataError.
NamedConfig name_run_config(const RunOptions& options);

// The configuration of a run that begins; with a checkpoint, that of the run which it is of, where
// what the user names again replaces what it had. Nothing is left to the planner then, but what a
// configuration leaves open for another budget or device. Throws ConfigError.
ReadConfig read_run_config(const RunOptions& options, const NamedConfig& named,
                           const std::optional<std::filesystem::path>& checkpoint = {});
ReadConfig read_run_config(const RunOptions& options);

// Throws ConfigError where nothing is named to train on.
void check_has_data(const train::RunConfig& config);

}  // namespace sotto::cli
