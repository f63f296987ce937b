// What a configuration leaves open, decided for a device at hand: the part that planning commands
// and running ones have in common.
#pragma once

#include <memory>
#include <string>

#include "cli/commands/opened_device.h"
#include "cli/commands/run_options.h"
#include "sotto/plan/host_choices.h"
#include "sotto/train/run/rehearsal.h"
#include "sotto/train/step/run_data.h"

namespace sotto::cli {

// What was decided, and plan.yaml, which says why; empty where nothing was open.
struct DecidedRun {
  train::RunConfig config;
  std::string plan_yaml;
};

// Plans and logs the reasons. Throws ConfigError where nothing fits.
DecidedRun decide_open(const train::RunConfig& config, const plan::OpenChoices& open,
                       const OpenedDevice& opened, train::RunData& data);

// What is planned with: what a policy leaves out where it does not fit is not among it.
std::shared_ptr<data::Source> source_to_plan(const plan::PlanRequest& request,
                                             train::RunData& data);

// What a run does besides its steps: decided in the way's configuration, and told.
// `length`: of an epoch, in seconds.
plan::HostChoices choose_besides(plan::Way& way, const plan::PlanRequest& request,
                                 const data::Source& source, double length,
                                 const train::RunData* data);

// What could be given up for memory, and what the run would need then: for one that ran out of it.
// One that goes on keeps its numerics and its data.
std::string ladder_text(const train::RunConfig& config, const OpenedDevice& opened,
                        bool is_resumed);

// A run that is tried, not done: its options, and the rehearsal of it.
struct TrialOptions {
  RunOptions run;
  std::string pretended;
  bool json = false;
};
void add_trial_options(CLI::App& command, TrialOptions& options);
std::unique_ptr<train::Rehearsal> make_rehearsal(const TrialOptions& options);

}  // namespace sotto::cli
