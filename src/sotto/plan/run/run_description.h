// A run as described by a user, on the command line or in a program, and the configuration that
// results from its file, its settings and its separate options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/config/config_tree.h"
#include "sotto/plan/plan_request.h"
#include "sotto/plan/run/model_choice.h"
#include "sotto/train/run/resume.h"
#include "sotto/train/step/config_aliases.h"

namespace sotto::plan {

// An empty string, or the number 0, means not given.
struct RunDescription {
  // A YAML or JSON file, and settings that override it: "optimizer.state=host".
  std::string config = {};
  std::vector<std::string> settings = {};
  // Values with a command line option of their own.
  std::string model = {};
  std::string init_from = {};
  std::string train = {};
  std::string dev = {};
  std::string memory = {};
  std::string host_memory = {};
  std::string device = {};
  int64_t max_steps = 0;
};

// The user's settings, not parsed yet: the file, overridden by the individual settings.
struct NamedConfig {
  ConfigNode tree;
  // Settings left to the planner: not given, or `auto`.
  OpenChoices open;
  // Requests made by keys of other tools.
  train::AliasedRequest request;
  std::optional<ModelChoice> model;
  // Its name, from the command line or the file; empty: none is named.
  std::string model_name = {};
};

struct ReadConfig {
  train::RunConfig config;
  // Settings that the planner decides.
  OpenChoices open;
  // The initial weights are those of the named model.
  bool inits_whole_model = false;
  // Prefix of numbered folders of runs without a name.
  std::string model_name;
};

// Throws ConfigError and DataError, including where a setting is given twice. `noted` receives
// differences from the model's own files.
NamedConfig name_config(const RunDescription& run, const train::Note& noted = {});

// Returns the configuration of a new run; with a checkpoint, that of its run, overridden by the
// user's settings. The planner then decides nothing, except for settings that are open for another
// budget or device. Throws ConfigError.
ReadConfig read_config(const RunDescription& run, const NamedConfig& named,
                       const std::optional<std::filesystem::path>& checkpoint = {});

// Throws ConfigError where no training data is named.
void check_has_data(const train::RunConfig& config);

}  // namespace sotto::plan
