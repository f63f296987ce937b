// Explains a plan: a reason with figures for each setting that was decided.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sotto/core/config/config_tree.h"
#include "sotto/plan/host_choices.h"
#include "sotto/plan/planner.h"

namespace sotto::plan {

// Returns the reasons for settings that were open; those of the host after those of the device.
// Then split_reason(), if there is one.
std::vector<Reason> reasons_of(const Plan& plan, const PlanRequest& request,
                               const HostChoices& host = {});

// Returns a reason for a setting with which the split of a step into micro-batches changes the
// result; none where it does not.
std::optional<Reason> split_reason(const models::ModelOptions& model);

// Returns the complete configuration of the run, with a reason above each setting that was decided.
ConfigNode write_plan(const Plan& plan, const PlanRequest& request, const HostChoices& host = {});

}  // namespace sotto::plan
