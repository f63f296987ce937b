// Decides the open settings of a configuration for a local device: the first stage of every run and
// trial.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sotto/device/opened_device.h"
#include "sotto/plan/host_choices.h"
#include "sotto/plan/plan_request.h"
#include "sotto/train/step/run_data.h"

namespace sotto::plan {

struct DecidedRun {
  train::RunConfig config;
  // Reasons, and the text of plan.yaml. Both are empty where nothing was open.
  std::vector<Reason> reasons = {};
  std::string plan_yaml = {};
  // Predicted time of a step of median length.
  StepTime time = {};
};

// Throws Infeasible where nothing fits.
DecidedRun decide_open(const train::RunConfig& config, const OpenChoices& open,
                       const device::OpenedDevice& opened, train::RunData& data);

// Returns the data to plan with: without items that a policy skips because they do not fit.
std::shared_ptr<data::Source> source_to_plan(const PlanRequest& request, train::RunData& data);

// Decides host settings in the configuration of `candidate`, and explains how the run is evaluated.
// `length`: seconds per epoch. `data` may be null.
HostChoices choose_host_settings(Candidate& candidate, const PlanRequest& request,
                                 const data::Source& source, double length,
                                 const train::RunData* data);

// Describes, in lines, settings that save memory and what the run would need with them, for a run
// that ran out of memory. For a resumed run only settings that keep its result are listed.
std::string ladder_text(const train::RunConfig& config, const device::OpenedDevice& opened,
                        bool is_resumed);

}  // namespace sotto::plan
