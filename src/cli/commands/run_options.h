// The options that describe a run, common to the commands that plan, try or do one.
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

// A run that is tried, not done.
struct TrialOptions {
  plan::RunDescription run;
  std::string pretended;
  bool json = false;
};
void add_trial_options(CLI::App& command, TrialOptions& options);

// Shows what was decided.
std::unique_ptr<train::Rehearsal> make_rehearsal(const TrialOptions& options);

}  // namespace sotto::cli
