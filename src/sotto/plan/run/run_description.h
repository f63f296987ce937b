// A run as a user describes it, on the command line or in a program, and the configuration that its
// file, its settings and what is named by itself make together.
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

// Nothing is named where a text is empty, or a number 0.
struct RunDescription {
  // A file, YAML or JSON, and what is laid over it: "optimizer.state=host".
  std::string config = {};
  std::vector<std::string> settings = {};
  // Each has an option of its own on the command line.
  std::string model = {};
  std::string init_from = {};
  std::string train = {};
  std::string dev = {};
  std::string memory = {};
  std::string host_memory = {};
  std::string device = {};
  int64_t max_steps = 0;
};

// What the user named, not read yet: the file, with the settings laid over it.
struct NamedConfig {
  ConfigNode tree;
  // What the user left to the planner: what is not named, or `auto`.
  OpenChoices open;
  // What keys of other tools asked for.
  train::AliasedRequest request;
  std::optional<ModelChoice> model;
};

struct ReadConfig {
  train::RunConfig config;
  // What the planner is to decide.
  OpenChoices open;
  // The weights to begin with are those of the model that was named.
  bool inits_whole_model = false;
  // What numbered folders of runs without a name begin with.
  std::string model_name;
};

// Throws ConfigError and DataError; also where a setting is named twice. `noted` hears what is
// otherwise here than in the model's own files.
NamedConfig name_config(const RunDescription& run, const train::Note& noted = {});

// The configuration of a run that begins; with a checkpoint, that of the run which it is of, where
// what the user names again replaces what it had. Nothing is left to the planner then, but what a
// configuration leaves open for another budget or device. Throws ConfigError.
ReadConfig read_config(const RunDescription& run, const NamedConfig& named,
                       const std::optional<std::filesystem::path>& checkpoint = {});

// Throws ConfigError where nothing is named to train on.
void check_has_data(const train::RunConfig& config);

}  // namespace sotto::plan
