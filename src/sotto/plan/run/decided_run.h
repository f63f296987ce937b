// What a configuration leaves open, decided for a device at hand: what every run, and every trial
// of one, begins with.
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
  // Both are empty where nothing was open; the second is plan.yaml.
  std::vector<Reason> reasons = {};
  std::string plan_yaml = {};
};

// Throws Infeasible where nothing fits.
DecidedRun decide_open(const train::RunConfig& config, const OpenChoices& open,
                       const device::OpenedDevice& opened, train::RunData& data);

// The data that is planned with: without what a policy leaves out where it does not fit.
std::shared_ptr<data::Source> source_to_plan(const PlanRequest& request, train::RunData& data);

// Decides what a run does on the host, in the way's configuration, and tells how it is evaluated.
// `length`: of an epoch, in seconds. `data` may be absent.
HostChoices choose_host_settings(Way& way, const PlanRequest& request, const data::Source& source,
                                 double length, const train::RunData* data);

// What could be given up for memory, and what the run would need then, in lines: for one that ran
// out of it. One that goes on keeps its result.
std::string ladder_text(const train::RunConfig& config, const device::OpenedDevice& opened,
                        bool is_resumed);

}  // namespace sotto::plan
