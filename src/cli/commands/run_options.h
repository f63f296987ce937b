// Options that describe a run, common to the commands that plan, rehearse or train one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sotto/plan/run/run_description.h"
#include "sotto/train/run/rehearsal.h"

namespace CLI {
class App;
}

namespace sotto::cli {

void add_run_options(CLI::App& command, plan::RunDescription& run);

// Adds --pretend-device.
void add_pretend_option(CLI::App& command, std::string& pretended);

// Options of a run that is only tried.
struct TrialOptions {
  plan::RunDescription run;
  std::string pretended;
  bool json = false;
};
void add_trial_options(CLI::App& command, TrialOptions& options);

// Prints the settings that were decided.
std::unique_ptr<train::Rehearsal> make_rehearsal(const TrialOptions& options);

}  // namespace sotto::cli
