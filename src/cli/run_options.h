// The options that name a run, common to the commands that plan, try or do one, and the
// configuration that they make together with its file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sotto/plan/planner.h"
#include "sotto/train/config_aliases.h"
#include "sotto/train/run_config.h"

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
};

void add_run_options(CLI::App& command, RunOptions& options);

struct ReadConfig {
  train::RunConfig config;
  // What the user left to the planner: what is not named, or `auto`.
  plan::OpenChoices open;
  // What keys of other tools asked for.
  train::AliasedRequest request;
  // The weights to begin with are those of --model.
  bool inits_whole_model = false;
  // What numbered folders of runs without a name begin with.
  std::string model_name;
};

// `checkpoint`: whose configuration stands for the file where none is named. Throws ConfigError.
ReadConfig read_run_config(const RunOptions& options,
                           const std::optional<std::filesystem::path>& checkpoint = {});

// Throws ConfigError where nothing is named to train on.
void check_has_data(const train::RunConfig& config);

}  // namespace sotto::cli
